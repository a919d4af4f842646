"""Softmax at the roofline: `snakemake --cores 1` makes every figure and judges every claim and goal."""


include: "workflow/Snakefile"


# An included rule is never the default one.
rule all:
    default_target: True
    input:
        rules.figures.input,
        rules.claims.input,
        rules.goals.input,
        # So that `snakemake --report` by itself finds all that it shows.
        rules.reported.input,
    localrule: True
