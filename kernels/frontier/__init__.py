"""The family of kernels that stays at copy speed: one for each range of widths."""
