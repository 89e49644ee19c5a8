"""The hand-written readers against protobuf, on fields in every order, shape and width.

Mutated recordings rarely repeat a field, reorder, nest or stretch a number in just the right place; a grammar does
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz import reference
from tests.fuzz.grammar import Grammar
from tests.fuzz.targets import TARGETS, framed

COMMANDS = 40_000
METADATA = 15_000
READS = 5_000


def tried(target: Callable[[bytes], None], data: bytes) -> None:
    try:
        target(data)
    except Exception as error:
        raise AssertionError(f"bytes.fromhex({data.hex()!r})") from error


def test_commands_are_read_and_refused_as_protobuf_does():
    grammar = Grammar(seed=1)
    read = 0
    for _ in range(COMMANDS):
        data = grammar.command()
        tried(TARGETS["commands"], data)
        read += any(judge(data) != reference.REFUSED for judge in (reference.send, reference.ack, reference.flow))
    assert COMMANDS * 0.3 < read < COMMANDS * 0.9  # both sides of the border were walked


def test_metadata_is_read_and_refused_as_protobuf_does():
    grammar = Grammar(seed=2)
    for _ in range(METADATA):
        tried(TARGETS["entries"], grammar.metadata())


def test_reads_made_of_such_commands_are_cut_and_gathered():
    grammar = Grammar(seed=3)
    for _ in range(READS):
        commands = [grammar.command() for _ in range(grammar.chance.randrange(1, 7))]
        entries = [grammar.chance.randbytes(grammar.chance.choice((0, 3, 9, 10, 30))) for _ in commands]
        sound = b"\0\0\0\2ab" + b"cdefgh"
        frames = [
            framed(command, entry if grammar.rarely(4) else sound)
            for command, entry in zip(commands, entries, strict=True)
        ]
        tried(TARGETS["cutting"], b"".join(frames))
