"""The blog post: one page that teaches, built from a source's figures, tables and facts."""
