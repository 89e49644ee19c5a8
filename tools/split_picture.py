"""The picture of a topic that splits and merges, docs/split.svg: messages of two keys in three generations of segments.

`make sync` writes the picture and a test compares it. The picture has no script and no font of its own, and follows
the colour scheme of the reader.
"""

from __future__ import annotations

from collections.abc import Iterable

WIDTH, HEIGHT = 880, 292
BOX, GAP = 34, 6  # a message, and the space between two messages
STYLE = """
    text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
    .title { font-weight: 600 }
    .range, .note { fill: #59636e }
    .range { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 12px }
    .card { fill: #ffffff; stroke: #d1d9e0 }
    .segment { fill: #f6f8fa; stroke: #818b98 }
    .sealed { stroke-dasharray: 5 4 }
    .active { stroke: #1a7f37; stroke-width: 2 }
    .line { fill: none; stroke: #59636e; stroke-width: 1.5 }
    .ada { fill: #0969da } .bob { fill: #bc4c00 }
    .label { fill: #ffffff; font-weight: 600; text-anchor: middle }
    .head { fill: #59636e }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .range, .note, .head { fill: #9198a1 }
      .card { fill: #0d1117; stroke: #3d444d }
      .segment { fill: #151b23; stroke: #656c76 }
      .active { stroke: #3fb950 }
      .line { stroke: #9198a1 }
      .ada { fill: #1f6feb } .bob { fill: #bd561d }
      .label { fill: #ffffff }
    }
"""


def page() -> str:
    shapes = [
        *_segment(24, 94, "segment 0", "0000-ffff", ["A1", "B1", "A2", "B2"], "sealed"),
        *_segment(300, 36, "segment 1", "0000-7fff", ["A3", "A4", "A5"], "sealed"),
        *_segment(300, 152, "segment 2", "8000-ffff", ["B3", "B4", "B5"], "sealed"),
        *_segment(576, 94, "segment 3", "0000-ffff", ["A6", "B6", "B7", "A7"], "active", width=280),
        _arrow(208, 126, 296, 68),
        _arrow(208, 126, 296, 184),
        _arrow(444, 68, 572, 126),
        _arrow(444, 184, 572, 126),
        _text(252, 60, "split", "note", anchor="middle"),
        _text(508, 60, "merge", "note", anchor="middle"),
        _text(24, 246, "A consumer gets a segment after all its parents:", "note"),
        *_messages(24, 256, ["A1", "A2", "A3", "A4", "A5", "A6", "A7"], size=24),
        *_messages(252, 256, ["B1", "B2", "B3", "B4", "B5", "B6", "B7"], size=24),
        _text(480, 273, "Every key stays in order.", "title"),
    ]
    label = (
        "A scalable topic: segment 0 is split into segments 1 and 2, which are merged into segment 3. The messages "
        "A1 to A7 of one key and B1 to B7 of another stay in order."
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" role="img" aria-label="{label}">',
            f"  <style>{STYLE}  </style>",
            '  <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
            f'  <rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
            *(f"  {shape}" for shape in shapes),
            "</svg>\n",
        ]
    )


def _segment(
    x: int, y: int, name: str, keys: str, messages: list[str], state: str, width: int | None = None
) -> Iterable[str]:
    inner = len(messages) * (BOX + GAP) + GAP
    title = (
        f'<tspan class="title">{name}</tspan> <tspan class="range">{keys}</tspan> <tspan class="note">{state}</tspan>'
    )
    yield f'<text x="{x}" y="{y - 8}">{title}</text>'
    yield f'<rect class="segment {state}" x="{x}" y="{y}" width="{width or inner + 18}" height="64" rx="6"/>'
    yield from _messages(x + GAP + 3, y + 15, messages)


def _messages(x: int, y: int, names: list[str], size: int = BOX) -> Iterable[str]:
    gap = GAP if size == BOX else 4
    for number, name in enumerate(names):
        left = x + number * (size + gap)
        key = "ada" if name.startswith("A") else "bob"
        yield f'<rect class="{key}" x="{left}" y="{y}" width="{size}" height="{size}" rx="5"/>'
        yield _text(left + size // 2, y + size // 2 + 5, name, "label", anchor="")


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    middle = (x1 + x2) // 2
    return f'<path class="line" marker-end="url(#head)" d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"/>'


def _text(x: int, y: int, words: str, kind: str, anchor: str = "") -> str:
    placed = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{x}" y="{y}"{placed}>{words}</text>'
