"""docs/split.svg is the picture that its generator draws: well-formed, without scripts and foreign origins."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tools.split_picture import page

PICTURE = Path(__file__).parents[2] / "docs" / "split.svg"


def test_picture_of_split_is_fresh() -> None:
    assert PICTURE.read_text(encoding="utf-8") == page(), "run make sync"


def test_picture_loads_nothing_and_stays_inside() -> None:
    tree = ElementTree.fromstring(page())
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert tags <= {"svg", "style", "defs", "marker", "path", "rect", "text", "tspan"}
    assert page().count("http") == 1  # the namespace
    width, height = float(tree.get("width", "0")), float(tree.get("height", "0"))
    for element in tree.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(element.get("x", "0")) + float(element.get("width", "0")) <= width
        assert float(element.get("y", "0")) + float(element.get("height", "0")) <= height
