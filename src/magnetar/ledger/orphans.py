"""Ledgers that no record names, and deletion that survives a crash.

A ledger exists before a record names it and after a record has dropped it; a crash between leaves an orphan. Every
ledger of ours says in its custom metadata which record it belongs to, so a sweep can look there. A ledger that was
made a moment ago is not in its record yet: only what two sweeps in a row found without a record is deleted. It
trusts custom metadata that carry our mark and touches no others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from magnetar.base.errors import NoSuchLedger
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore

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
    apart as a roll may take at most; one broker of a cluster sweeps.
    """
    found = await ledgers.list(OURS)
    named: dict[str, set[int]] = {}
    missing: list[int] = []
    for ledger in found:
        try:
            path = (await ledgers.info(ledger)).custom.get(_NODE)
        except NoSuchLedger:
            continue  # deleted since the listing
        if path is None:
            continue
        if path not in named:
            node = await metadata.get(path)
            named[path] = set() if node is None else named_ledgers(node.value)
        if ledger not in named[path]:
            missing.append(ledger)
    for ledger in missing:
        if ledger in suspects:
            await ledgers.delete(ledger)
    return frozenset(missing) - suspects


async def erase(path: str, chain: Iterable[int], *, ledgers: LedgerStore, metadata: MetadataStore) -> None:
    """Ledgers first, their names last: interrupted anywhere, the record still says what is left to do."""
    doomed = list(chain)
    async for _, node in metadata.scan(path):
        doomed += sorted(named_ledgers(node.value))
    for ledger in doomed:
        await ledgers.delete(ledger)
    await metadata.delete_tree(path)


def named_ledgers(value: bytes) -> set[int]:
    """Every ledger that a record of ours names; a record that is not one of ours names none."""
    try:
        record: Any = msgspec.json.decode(value) if value else {}
    except msgspec.DecodeError:
        return set()
    if not isinstance(record, dict):
        return set()
    named = {int(item["id"]) for item in record.get("ledgers", [])}
    snapshot = record.get("snapshot")
    return named | ({int(snapshot["ledger"])} if snapshot else set())
