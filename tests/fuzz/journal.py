"""Hostile bytes as journal files. The promise: an entry is read as it was appended, or it is an error; never a third.

`journal_damage` takes its bytes as a list of injuries to a true journal (bits flipped, sectors blanked or swapped,
files cut), because a search that may write what it likes finds checksums to match. `journal_files` takes them as a
file, where only the errors are judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import cache
from typing import Any

from magnetar.base.errors import Corrupt, Refused
from magnetar.ledger.local import segment as segments
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.ledger.store import Reader
from simulation.environment.disk import SECTOR_BYTES, SimulatedFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore
from tests.contract.ledgers import append, entries, entry

DIRECTORY = "/data/journal"
FIRST_LOG = f"{DIRECTORY}/{segments.log_name(1)}"
LEDGERS = 3  # the first is sealed, the others were open at the kill
STEPS = 12
SEGMENT_BYTES = 3000
INJURIES_MAX = 8
INJURY_BYTES = 4  # kind and file, offset (two bytes), argument


def journal_damage(data: bytes) -> None:
    """Injure a true journal, start on it, and compare everything that can be read with what was appended."""
    run(_damage(data))


def journal_files(data: bytes) -> None:
    """Start on a journal whose only segment is these bytes, then on one whose first sidecar is."""
    for name in (segments.log_name(1), segments.sidecar_name(1)):
        run(_start_on(name, data))
    with suppress(Corrupt, Refused):
        _, records = segments.decode_sidecar(data, "fuzz")
        assert len(list(records)) == len(records)
    with suppress(Refused):
        segments.decode_header(data, "fuzz")


def run(body: Coroutine[Any, Any, None]) -> None:
    asyncio.run(body)


async def _damage(data: bytes) -> None:
    files = SimulatedFiles()
    for path, content in image().items():
        files.open(path, create=True).pwritev([content], 0)
    paths = sorted(image())
    for at in range(0, min(len(data), INJURIES_MAX * INJURY_BYTES) - INJURY_BYTES + 1, INJURY_BYTES):
        injure(files, paths, data[at : at + INJURY_BYTES])
    engine = await start(files)
    for ledger in range(LEDGERS):
        try:
            reader = await engine.open(ledger, recover=True)
        except Corrupt:
            assert engine.damage
            continue
        assert reader.last_entry < STEPS * 2
        assert ledger > 0 or reader.last_entry == STEPS * 2 - 1  # sealed: its end is known whatever happens
        await compare(reader)


async def compare(reader: Reader) -> None:
    at = 0
    while at <= reader.last_entry:
        try:
            got = await reader.read(at, reader.last_entry, 1 << 20)
        except Corrupt:
            at += 1
            continue
        numbers = range(at, got.last + 1)
        assert [got.entry(index) for index in range(len(got))] == [entry(reader.ledger, n) for n in numbers]
        assert got.counts == [1 + n % 3 for n in numbers]
        at = got.last + 1


def injure(files: SimulatedFiles, paths: list[str], injury: bytes) -> None:
    kind, argument = injury[0] % 4, injury[3]
    path = paths[injury[0] // 4 % len(paths)]
    content = files.content(path)
    if not content:
        return
    at = int.from_bytes(injury[1:3], "big") % len(content)
    sector = at - at % SECTOR_BYTES
    if kind == 0:
        files.damage(path, at, bytes([content[at] ^ 1 << argument % 8]))
    elif kind == 1:
        files.damage(path, sector, bytes(len(content[sector : sector + SECTOR_BYTES])))
    elif kind == 2:
        other = argument * SECTOR_BYTES % len(content)
        other -= other % SECTOR_BYTES
        files.damage(path, sector, content[other : other + SECTOR_BYTES][: len(content) - sector])
    else:
        files.open(path).truncate(at)


async def _start_on(name: str, data: bytes) -> None:
    files = SimulatedFiles()
    for path, content in image().items():
        if path in (FIRST_LOG, f"{DIRECTORY}/{name}"):
            files.open(path, create=True).pwritev([data if path.endswith(name) else content], 0)
    with suppress(Refused):
        engine = await start(files)
        for ledger in range(LEDGERS):
            with suppress(Corrupt):
                reader = await engine.open(ledger, recover=True)
                for first in range(0, reader.last_entry + 1, 5):
                    with suppress(Corrupt):
                        await reader.read(first, reader.last_entry, 1000)
        await engine.close()


async def start(files: SimulatedFiles) -> LocalLedgers:
    runtime = InlineRuntime(files)
    metadata = MemoryStore(runtime)
    for path, value in records().items():
        await metadata.put(path, value)
    return await LocalLedgers.start("/data", runtime, metadata, segment_bytes=SEGMENT_BYTES)


@cache
def made() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files and the metadata of a load that was killed: several segments, the last one without a sidecar."""
    found: list[tuple[dict[str, bytes], dict[str, bytes]]] = []

    async def body() -> None:
        files = SimulatedFiles()
        runtime = InlineRuntime(files)
        metadata = MemoryStore(runtime)
        engine = await LocalLedgers.start("/data", runtime, metadata, segment_bytes=SEGMENT_BYTES)
        writers = [await engine.create({}) for _ in range(LEDGERS)]
        for step in range(STEPS):
            for writer in writers:
                await append(writer, entries(writer.ledger, step * 2, 2))
        await writers[0].close()
        contents = {f"{DIRECTORY}/{name}": files.content(f"{DIRECTORY}/{name}") for name in files.list(DIRECTORY)}
        nodes = {f"/ledgers/local/{name}": node.value async for name, node in metadata.scan("/ledgers/local")}
        found.append((contents, nodes))

    asyncio.run(body())
    return found[0]


def image() -> dict[str, bytes]:
    return made()[0]


def records() -> dict[str, bytes]:
    return made()[1]


def damage_seeds() -> list[bytes]:
    """One injury of each kind in each file, and some together."""
    single = [
        bytes((kind + 4 * file, place, 77, argument))
        for kind in range(4)
        for file in range(len(image()))
        for place, argument in ((0, 3), (1, 9), (7, 200))
    ]
    return [*single, *(b"".join(single[n : n + 5]) for n in range(0, len(single), 5))]


def file_seeds() -> list[bytes]:
    return [content for path, content in sorted(image().items()) if len(content) <= 4096]
