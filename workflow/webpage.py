"""A Markdown table as a page of its own: no script, no style from elsewhere.

python -m workflow.webpage results/archive-nvidia-h200/claims.md claims.html
"""

from html import escape
from pathlib import Path

import typer
from markdown_it import MarkdownIt

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.4 sans-serif; margin: 1em; }}
table {{ border-collapse: collapse; }}
th, td {{ border-bottom: 1px solid #bbb; padding: 0.3em 0.6em; text-align: left; vertical-align: top; }}
</style>
</head>
<body>
{body}</body>
</html>
"""  # noqa: E501 (CSS, one rule a line)


def page(text: str, title: str) -> str:
    """HTML of the Markdown ``text``; what looks like HTML in it is shown as it stands."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return PAGE.format(title=escape(title), body=body)


def main(markdown: Path, out: Path) -> None:
    """Write MARKDOWN as the page OUT."""
    if not markdown.exists():
        print(f"{markdown} is missing: snakemake --cores 1 makes it")
        raise typer.Exit(2)
    out.write_text(page(markdown.read_text(), markdown.stem))


if __name__ == "__main__":
    typer.run(main)
