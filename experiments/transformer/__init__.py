"""End to end: one small transformer, trained and sampled with torch's operators and with ours."""
