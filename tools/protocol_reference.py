"""The section of docs/PROTOCOL.md that is rendered from the code: the fields of a record and the phases of a reshape.

`make sync` writes the section and a test compares it. A field without a meaning in `RECORD` or `SEGMENT` fails that
test too.
"""

from __future__ import annotations

import inspect

from magnetar.scalable.machines import reshape
from magnetar.scalable.record import codec

BEGIN, END = "<!-- generated: reshape -->", "<!-- end of generated -->"

RECORD = {
    "v": "version of this form; a newer one is refused",
    "epoch": "raised by every change that a client may see and by every take-over",
    "generation": "changes of the layout since the creation: the epoch that REST and Pulsar's clients see",
    "nextSegmentId": "allocated when an intent is written, never reused, kept by the tombstone",
    "incarnation": "the incarnation of the topic name; calls and checkpoints carry it",
    "lifecycle": "LIVE, DELETING, or GONE: a tombstone that keeps the counters",
    "term": "raised by every take-over; a lower one is refused everywhere",
    "segments": "by id, see below",
    "subsGen": "raised whenever a subscription is created or removed",
    "intent": "the reshape under way: operation, parents, children with ids and ranges, term, reason to take it back",
    "routing": "which half of the hash routes: low16 or high16; absent until the first producer",
    "fence": "token of the exclusive producer, one for the topic",
    "exclusive": "name of the exclusive producer, one for the topic; it may have disconnected since",
    "createdAtMs": "birth",
    "properties": "of the topic",
    "autoScalePolicy": "override of the namespace's policy",
    "history": "the last 200 reshapes: kind, outcome, trigger, reason, time; pruning does not erase them",
}
SEGMENT = {
    "segmentId": "never used twice under one name",
    "hashRange": "both ends included",
    "state": "ACTIVE, SEALED, PRUNING (its topic is being deleted)",
    "parentIds": "segments that come before this one",
    "childIds": "segments that come after this one",
    "createdAtEpoch": "",
    "createdAtMs": "",
    "sealedAtEpoch": "-1: not sealed",
    "sealedAtMs": "-1: not sealed",
    "sealedBy": "the operation that sealed the segment; a retry recognises its own success by it",
    "end": "ledger and entry of the last message",
    "messages": "at the seal",
    "bytes": "at the seal",
    "firstPublishMs": "bounds of publish time, for seeks",
    "lastPublishMs": "",
    "legacyTopicName": "the data is in this plain topic",
    "entryBucketSplits": "first hashes of entry buckets 1..N-1",
    "mergeDepth": "merges on the longest way to the segment; pruning does not erase it",
}


def section() -> str:
    """The text between the two marks, with them."""
    parts = [
        BEGIN,
        "### The record\n",
        "| field | meaning |",
        "|---|---|",
        *(f"| `{name}` | {meaning} |" for name, meaning in RECORD.items()),
        "\nOf each segment:\n",
        "| field | meaning |",
        "|---|---|",
        *(f"| `{name}` | {meaning} |" for name, meaning in SEGMENT.items()),
        "\n### A split or merge, phase by phase\n",
        "| phase | |",
        "|---|---|",
        *(f"| {phase.name} | {phase.value} |" for phase in reshape.Phase),
        "\n| in | when | then | next |",
        "|---|---|---|---|",
        *_rows(),
        END,
    ]
    return "\n".join(parts) + "\n"


def replace_section(text: str) -> str:
    """The page with the section of today."""
    return text[: text.index(BEGIN)] + section() + text[text.index(END) + len(END) + 1 :]


def fields() -> dict[str, set[str]]:
    """The names that the stored form has, for the test that every one has a meaning."""
    return {name: set(known) for name, known in codec.field_names().items()}


def _rows() -> list[str]:
    order = {phase: number for number, phase in enumerate(reshape.Phase)}
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for (phase, event), row in sorted(reshape.TABLE.items(), key=lambda item: (order[item[0][0]], item[0][1].__name__)):
        then = ", ".join(after.name for after in row.then if after is not phase) or "-"
        does = (inspect.getdoc(row.do) or "").replace("\n", " ")
        grouped.setdefault((event.__name__, does, then), []).append(phase.name)
    return [f"| {', '.join(phases)} | {event} | {does} | {then} |" for (event, does, then), phases in grouped.items()]
