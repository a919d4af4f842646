"""Softmax at the roofline: `snakemake --cores 1` makes every figure and judges every claim and goal."""


include: "workflow/Snakefile"


# An included rule is never the default one.
rule all:
    default_target: True
    input:
        rules.figures.input,
        rules.claims.input,
        rules.goals.input,
    localrule: True
