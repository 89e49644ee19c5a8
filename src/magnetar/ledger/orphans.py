"""Ledgers that no record names, and deletion that survives a crash.

A ledger exists before a record names it and after a record has dropped it; a crash between leaves an orphan. Every
ledger of ours says in its custom metadata which record it belongs to, so a sweep can look there. A ledger that was
made a moment ago is not in its record yet: only what two sweeps in a row found without a record is deleted. It
trusts custom metadata that carry our mark and touches no others.
"""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.base.errors import Corrupt, NoSuchLedger, Refused
from magnetar.ledger.book import VERSION, decode_record
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from magnetar.observe.log import get

log = get("ledger")

OURS = {"application": "magnetar"}
_NODE = "node"  # path of the record that should name the ledger


def data_custom(path: str) -> dict[str, str]:
    return {**OURS, "component": "managed-ledger", _NODE: path}


def snapshot_custom(path: str) -> dict[str, str]:
    return {**OURS, "component": "snapshots", _NODE: path}


async def sweep(
    ledgers: LedgerStore, metadata: MetadataStore, suspects: frozenset[int] = frozenset()
) -> frozenset[int]:
    """Delete the suspects that still have no record, and return the suspects for the next sweep. Sweeps are as far
    apart as a roll may take at most; one broker of a cluster sweeps."""
    named: dict[str, set[int] | None] = {}
    missing: list[int] = []
    for ledger in await ledgers.list(OURS):
        try:
            path = (await ledgers.info(ledger)).custom.get(_NODE)
        except NoSuchLedger:
            continue  # deleted since the listing
        if path is None:
            continue
        if path not in named:
            node = await metadata.get(path)
            named[path] = set() if node is None else named_ledgers(path, node.value)
            if named[path] is None:
                log.warning("record not understood", path=path)
        held = named[path]
        if held is not None and ledger not in held:
            missing.append(ledger)
    for ledger in missing:
        if ledger in suspects:
            await ledgers.delete(ledger)
    return frozenset(missing) - suspects


async def erase(path: str, chain: Iterable[int], *, ledgers: LedgerStore, metadata: MetadataStore) -> None:
    """Ledgers first, their names last: interrupted anywhere, the record still says what is left to do."""
    doomed = list(chain)
    async for part, node in metadata.scan(path):
        doomed += sorted(named_ledgers(f"{path}/{part}", node.value) or ())
    for ledger in doomed:
        await ledgers.delete(ledger)
    await metadata.delete_tree(path)


def named_ledgers(path: str, value: bytes) -> set[int] | None:
    """Every ledger that a record names. None: it cannot be read (damaged, or newer than we are), so nobody may take a
    ledger of it for an orphan."""
    try:
        record = decode_record(path, value, VERSION)
        named = {int(item["id"]) for item in record.get("ledgers") or []}
        snapshot = record.get("snapshot")
        return named if snapshot is None else named | {int(snapshot["ledger"])}
    except (Corrupt, Refused, AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
