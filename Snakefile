"""Softmax at the roofline: `snakemake --cores 1` makes every figure, judges every claim and goal, and
sets the paper and the post of the recorded run."""


include: "workflow/Snakefile"


# An included rule is never the default one.
rule all:
    default_target: True
    input:
        rules.figures.input,
        rules.claims.input,
        rules.goals.input,
        limits(SOURCE.name),
        rules.agreement.input,
        # So that `snakemake --report` by itself finds all that it shows.
        rules.reported.input,
        # Of other runs by name: where a peer was not installed, numbers are lacking.
        [rules.paper.input, rules.blog.input]
        if SOURCE.name == f"archive-{DEFAULT_ARCHIVE}"
        else [],
    localrule: True
