# The blog post: one page of a source's figures, tables and numbers.


rule blog_facts:
    """Look up every number of the post's text; one that no table has stops the build, by name."""
    input:
        "paper/complete.py",
        "paper/facts.py",
        "workflow/schemas/facts.schema.yaml",
        expand("results/{{source}}/tidy/{sweep}.csv", sweep=contents.SWEEPS),
        [f"results/{{source}}/{table}" for table in TABLE_FIGURES.values()],
        "results/{source}/claims.csv",
        "results/{source}/hardware.json",
        "results/build/sm_90/resources.csv",
        facts="paper/blog/facts.yaml",
    output:
        "results/{source}/blog_facts.json",
    log:
        "results/logs/{source}/blog-facts.log",
    wildcard_constraints:
        source="(archive|local)-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    params:
        folder=subpath(output[0], parent=True),
    shell:
        "python -m paper.facts {input.facts} --folder {params.folder} --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}"


rule page:
    """Build the post: text, figures, data and scripts in one file that needs no network."""
    input:
        sorted(
            str(path)
            for suffix in ("py", "md", "j2", "js", "css")
            for path in Path("paper/blog").rglob(f"*.{suffix}")
        ),
        "docs/errata.md",
        lambda wildcards: post_figures(wildcards.source),
        expand("results/{{source}}/tidy/{sweep}.csv", sweep=contents.SWEEPS),
        "results/{source}/raw/cuda_ladder.csv.gz",
        "results/{source}/claims.csv",
        "results/{source}/hardware.json",
        facts="results/{source}/blog_facts.json",
        profile=lambda wildcards: f"results/{profiled(SOURCE) or wildcards.source}/profile.csv",
    output:
        "results/{source}/blog.html",
    log:
        "results/logs/{source}/blog.log",
    wildcard_constraints:
        source="(archive|local)-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    params:
        folder=subpath(output[0], parent=True),
        build="results/build",
    shell:
        "python -m paper.blog.build --folder {params.folder} --build {params.build}"
        " --profile {input.profile} --facts {input.facts} --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; cat {log}"


rule blog:
    """The blog post of this run's source."""
    input:
        f"results/{SOURCE.name}/blog.html",
    localrule: True
