"""Mistakes of the five publications, one test a row of docs/errata.md.

Each test puts what was published beside what is right: it passes while they differ as stated, and
fails if the mistake is put right.
"""
