"""Build the page: post, figures, data and scripts in one file that needs nothing else.

    python -m paper.blog.build --folder results/archive-nvidia-h200 --build results/build \
        --profile results/archive-nvidia-h200/profile.csv \
        --facts results/archive-nvidia-h200/blog_facts.json --out blog.html

The same inputs give the same bytes.  Whatever is missing is named, and no page is written.
"""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import jinja2
import typer

from paper.blog.contents import HERE
from paper.blog.inputs import BadPage, Inputs, read_facts
from paper.blog.post import Post
from paper.blog.tables import DAGGER

# In the order in which the page runs them.
SCRIPTS = (
    "softmax.js",
    "overflow.js",
    "visualiser.js",
    "chart.js",
    "explorer.js",
    "intervals.js",
)


def page(inputs: Inputs) -> str:
    """The whole page.  Raises BadPage."""
    sections = Post(inputs).sections()
    script = "\n".join((HERE / name).read_text() for name in SCRIPTS)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined
    )
    # A policy that allows this script and nothing from elsewhere: the page cannot call anyone.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html.j2").render(
        sections=sections,
        hardware=inputs.hardware(),
        measured=measured(inputs.hardware()),
        style=(HERE / "style.css").read_text(),
        script=script,
        digest=digest,
        stale=any(DAGGER in section.body for section in sections),
    )


def measured(hardware: Mapping[str, Any]) -> str:
    """When, and on how many cards: some sweeps of an archive may be those of an earlier run."""
    runs = [hardware, *hardware.get("earlier", {}).values()]
    dates = sorted({run["measured_utc"][:10] for run in runs})
    cards = len({run.get("gpu_id") for run in runs})
    return f"measured {', '.join(dates)} on {cards} card{'s' * (cards > 1)}"


def main(
    folder: Annotated[Path, typer.Option(help="results/<source>")],
    build: Annotated[Path, typer.Option(help="results/build, for figures of compiled code")],
    profile: Annotated[Path, typer.Option(help="profile.csv of this source or another")],
    facts: Annotated[Path, typer.Option(help="the facts of the source, as JSON")],
    out: Annotated[Path, typer.Option(help="the page")],
) -> None:
    """Write the blog post as one HTML file."""
    try:
        html = page(Inputs(folder, build, profile, read_facts(facts)))
    except BadPage as error:
        typer.echo(f"{error}.", err=True)
        raise typer.Exit(2) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(html)
    typer.echo(f"{out}: {len(html.encode()) / 1e6:.1f} MB")


if __name__ == "__main__":
    typer.run(main)
