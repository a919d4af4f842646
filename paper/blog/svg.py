"""A figure's SVG made ready to stand in a page beside others.

Matplotlib numbers its groups alike in every figure, and ids are the page's, not the figure's: those
that nothing refers to go, the others get the figure's name in front.  Coordinates of a hundredth of
a point are finer than any screen; cut there, a page of a dozen figures loses a third of its bytes.
"""

import re

from paper.blog.inputs import BadPage

METADATA = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
# One global rule a figure would reach into the others: it goes to the page's style sheet.
STYLE = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
ROOT_TAG = re.compile(r"<svg[^>]*?>", re.DOTALL)
VIEW = re.compile(r'viewBox="([^"]*)"')
USED = re.compile(r'(?:href="#|url\(#)([^")]+)')
ID = re.compile(r' id="([^"]*)"')
# Places only: a scale of 0.015625, by which matplotlib draws letters, has to stay.
PLACES = re.compile(r'(?<= d=")[^"]*|(?<= [xy]=")[^"]*|(?<=translate\()[^)]*')
DECIMALS = re.compile(r"\d+\.\d{3,}")
SPACE = re.compile(r"\s*\n\s*")


def inlined(svg: str, name: str, alt: str) -> str:
    """``svg`` as an image of the page, with its ``name`` and description.  Raises BadPage."""
    svg = STYLE.sub("", METADATA.sub("", svg))
    opening = ROOT_TAG.search(svg)
    view = VIEW.search(opening[0]) if opening else None
    if not opening or not view:
        raise BadPage(f"figure '{name}' is no SVG with a viewBox; draw it again")
    used = set(USED.findall(svg))
    body = svg[opening.end() :]
    body = ID.sub(lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", body)
    body = USED.sub(lambda m: m[0].removesuffix(m[1]) + f"{name}-{m[1]}", body)
    body = PLACES.sub(lambda m: DECIMALS.sub(_hundredth, m[0]), body)
    body = SPACE.sub(" ", body).replace("xlink:href", "href").replace("> <", "><")
    width = float(view[1].split()[2])
    return (
        f'<svg class="plot" role="img" aria-label="{escaped(alt)}" viewBox="{view[1]}"'
        f' style="--width:{width:.0f}px">{body.strip()}'
    )


def _hundredth(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def escaped(text: str) -> str:
    """``text`` inside an attribute of HTML."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
