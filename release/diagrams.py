"""Mermaid diagrams of the documents as inline SVG, for the site: no script is loaded to draw them.

Knows what the documents use: `flowchart TB` with one arrow on a line, and `sequenceDiagram` with participants, messages
and answers. ValueError: any other line. Colours are those of the text around the picture, in light and in dark.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from html import escape
from itertools import pairwise

_NODE = r'(\w+)(?:\["([^"]*)"\])?'
_ARROW = re.compile(rf"{_NODE} --> {_NODE}")
_PARTICIPANT = re.compile(r"participant (\w+) as (.+)")
_MESSAGE = re.compile(r"(\w+)(--?>>)(\w+): (.+)")

CHARACTER = 7.2  # width of a character of the text, at most
LINE = 18
BOX_WIDTH, GAP = 200, 24
PASSAGE_WIDTH = 20  # of an arrow between boxes
STEP = 180  # between two participants
ROW = 44  # between two messages


def svg(diagram: str) -> str:
    """The picture of a diagram, in one line."""
    kind, *lines = [line.strip() for line in diagram.strip().splitlines()]
    draw = {"flowchart TB": _flowchart, "sequenceDiagram": _sequence}.get(kind)
    if draw is None:
        raise ValueError(f"expected a flowchart TB or a sequenceDiagram, got {kind!r}")
    width, height, shapes = draw(lines)
    return (
        f'<svg class="diagram {kind.split()[0]}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" '
        'xmlns="http://www.w3.org/2000/svg"><defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
        f"{''.join(shapes)}</svg>"
    )


def _flowchart(lines: list[str]) -> tuple[float, float, list[str]]:
    labels: dict[str, str] = {}
    arrows: list[tuple[str, str]] = []
    for line in lines:
        match = _ARROW.fullmatch(line)
        if match is None:
            raise ValueError(f'expected an arrow as a["text"] --> b, got {line!r}')
        start, text, end, other = match.groups()
        for node, label in ((start, text), (end, other)):
            if label or node not in labels:
                labels[node] = label or node
        arrows.append((start, end))
    ranks = _ranks(labels, arrows)
    chains = [_chain(start, end, ranks) for start, end in arrows]
    ranks |= {node: ranks[chain[0]] + step for chain in chains for step, node in enumerate(chain)}
    rows: dict[int, list[str]] = {}
    for node in [*labels, *(node for chain in chains for node in chain[1:-1])]:
        rows.setdefault(ranks[node], []).append(node)
    links = [link for chain in chains for link in pairwise(chain)]
    for rank in sorted(rows)[1:]:  # below the middle of what leads to it, so that few arrows cross
        before = {node: place for row in rows.values() for place, node in enumerate(row)}
        rows[rank].sort(key=lambda node: _mean([before[start] for start, end in links if end == node]))
    sizes = {node: BOX_WIDTH if node in labels else PASSAGE_WIDTH for row in rows.values() for node in row}
    widths = {rank: sum(sizes[node] for node in row) + (len(row) - 1) * GAP for rank, row in rows.items()}
    width = max(widths.values()) + 2 * GAP
    texts = {node: textwrap.wrap(label, int(BOX_WIDTH / CHARACTER) - 1) for node, label in labels.items()}
    places: dict[str, tuple[float, float, float]] = {}  # middle, top, height
    top = float(GAP)
    for rank in sorted(rows):
        height = max(len(texts.get(node, ())) for node in rows[rank]) * LINE + 16
        left = (width - widths[rank]) / 2
        for node in rows[rank]:
            places[node] = (left + sizes[node] / 2, top, height)
            left += sizes[node] + GAP
        top += height + 2 * GAP
    shapes = [_line([places[node] for node in chain]) for chain in chains]
    for node, lines_of_text in texts.items():
        shapes += _box(*places[node], lines_of_text)
    return width, top - GAP, shapes


def _chain(start: str, end: str, ranks: dict[str, int]) -> list[str]:
    """An arrow with a passage in each row between its ends, so that it runs beside the boxes there."""
    return [start, *(f"{start} {end} {rank}" for rank in range(ranks[start] + 1, ranks[end])), end]


def _ranks(nodes: dict[str, str], arrows: list[tuple[str, str]]) -> dict[str, int]:
    """The row of each node: one below the lowest that leads to it."""
    ranks = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for start, end in arrows:
            ranks[end] = max(ranks[end], ranks[start] + 1)
    if max(ranks.values()) >= len(nodes):
        raise ValueError("the arrows of a flowchart must not form a circle")
    return ranks


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0


def _line(places: list[tuple[float, float, float]]) -> str:
    x, top, height = places[0]
    path = f"M{x:.0f} {top + height:.0f}"
    y = top + height
    for to_x, to_top, to_height in places[1:]:
        path += f"C{x:.0f} {y + GAP:.0f} {to_x:.0f} {to_top - GAP:.0f} {to_x:.0f} {to_top:.0f}"
        x, y = to_x, to_top
        if (to_x, to_top, to_height) != places[-1]:
            y += to_height
            path += f"V{y:.0f}"
    return f'<path class="line" d="{path}" marker-end="url(#arrow)"/>'


def _box(middle: float, top: float, height: float, lines: list[str], width: float = BOX_WIDTH) -> Iterator[str]:
    left = middle - width / 2
    yield f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6"/>'
    first = top + (height - len(lines) * LINE) / 2 + LINE - 5
    for number, line in enumerate(lines):
        yield _text(middle, first + number * LINE, line)


def _sequence(lines: list[str]) -> tuple[float, float, list[str]]:
    names: dict[str, str] = {}
    messages: list[tuple[str, str, str, str]] = []
    for line in lines:
        if match := _PARTICIPANT.fullmatch(line):
            names[match[1]] = match[2]
        elif match := _MESSAGE.fullmatch(line):
            messages.append((match[1], match[2], match[3], match[4]))
        else:
            raise ValueError(f"expected a participant or a message, got {line!r}")
    middles = {name: (STEP + BOX_WIDTH) // 4 + place * STEP for place, name in enumerate(names)}
    shapes: list[str] = []
    y = GAP + 36
    right = max(middles.values()) + STEP / 2
    for start, arrow, end, text in messages:
        x, to_x = middles[start], middles[end]
        lines_of_text = textwrap.wrap(text, int(max(abs(to_x - x), STEP) / CHARACTER) - 2)
        y += ROW + (len(lines_of_text) - 1) * LINE
        shapes += _arrow(x, to_x, y, arrow == "-->>", lines_of_text)
        right = max(right, middles[start] + 48 + max(map(len, lines_of_text)) * CHARACTER if x == to_x else 0)
    lives = [f'<path class="life" d="M{middle} {GAP + 36}V{y + GAP}"/>' for middle in middles.values()]
    boxes = [shape for name, middle in middles.items() for shape in _box(middle, GAP, 36, [names[name]], STEP - GAP)]
    return right, y + GAP + 8, [*lives, *shapes, *boxes]


def _arrow(x: int, to_x: int, y: int, dashed: bool, lines: list[str]) -> Iterator[str]:
    style = "line dashed" if dashed else "line"
    if x == to_x:
        yield f'<path class="{style}" d="M{x} {y - 14}H{x + 40}V{y}H{x + 4}" marker-end="url(#arrow)"/>'
    else:
        yield f'<path class="{style}" d="M{x} {y}H{to_x - 4 if to_x > x else to_x + 4}" marker-end="url(#arrow)"/>'
    for number, line in enumerate(reversed(lines)):
        if x == to_x:
            yield _text(x + 48, y - 3 - number * LINE, line, "start", halo=True)
        else:
            yield _text((x + to_x) / 2, y - 8 - number * LINE, line, halo=True)


def _text(x: float, y: float, text: str, anchor: str = "middle", *, halo: bool = False) -> str:
    style = ' class="halo"' if halo else ""
    return f'<text{style} x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'
