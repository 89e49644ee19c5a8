"""Orphan ledgers, which no record names, and deletion that survives a crash.

A ledger exists before a record names it and after a record has dropped it; a crash in between leaves an orphan. The
custom metadata of every ledger of ours names its record, so a sweep can look there. A new ledger is not in its record
yet: only a ledger that two sweeps in a row found without a record is deleted. If several brokers share the stores, that
is not proof, because the write of another broker may be late by any time. So one broker sweeps, and the owner of the
record deletes: it first writes the record again, and no late write can name the ledger any more. The sweep trusts
custom metadata that carry our mark and touches no other ledgers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from magnetar.base.errors import BadVersion, Corrupt, NoSuchLedger, NotEmpty, NotFound, NotReady, Refused
from magnetar.base.limits import METADATA_CHECKED_TRIES_MAX, ORPHANS_LISTED_AT_ONCE_MAX
from magnetar.ledger.record import VERSION, decode_record
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
    ledgers: LedgerStore,
    metadata: MetadataStore,
    suspects: frozenset[int] = frozenset(),
    *,
    drop: Callable[[str, int], Awaitable[None]] | None = None,
) -> frozenset[int]:
    """Delete the suspects that still have no record, and return the suspects for the next sweep. Sweeps are as far
    apart as a roll may take at most. `drop`: others share the stores, and this asks the owner of a record to delete a
    ledger that the record does not name."""
    named: dict[str, set[int] | None] = {}
    missing: dict[int, str] = {}
    async for ledger in _listed(ledgers):
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
                log.warning("record_decode_failed", path=path)
        held = named[path]
        if held is not None and ledger not in held:
            missing[ledger] = path
    for ledger in sorted(suspects & missing.keys()):
        if drop is None:
            await ledgers.delete(ledger)
        else:
            await drop(missing[ledger], ledger)
    return frozenset(missing) - suspects


async def _listed(ledgers: LedgerStore) -> AsyncIterator[int]:
    after = -1
    while page := await ledgers.list(OURS, after=after, limit=ORPHANS_LISTED_AT_ONCE_MAX):
        for ledger in page:
            yield ledger
        after = page[-1]


async def drop_orphan(path: str, ledger: int, *, ledgers: LedgerStore, metadata: MetadataStore) -> bool:
    """Called by the owner of the record. False: the record names the ledger after all, or has changed: look again."""
    try:
        if (await ledgers.info(ledger)).custom.get(_NODE) != path:
            return False
    except NoSuchLedger:
        return False
    if not await _settle(path, ledger, metadata):
        return False
    await ledgers.delete(ledger)
    return True


async def _settle(path: str, ledger: int, metadata: MetadataStore) -> bool:
    """Write the record as it is: a compare-and-set under way that would name the ledger fails from now on. False: the
    record has changed, look again."""
    node = await metadata.fresh(path)
    if node is None:
        return True  # without a record no ledger is named: a record is created first, without a ledger
    named = named_ledgers(path, node.value)
    if named is None or ledger in named:
        return False
    try:
        await metadata.put(path, node.value, expected=node.stat.version)
    except BadVersion:
        return False
    return True


async def erase(
    path: str, chain: Iterable[int], version: int, *, ledgers: LedgerStore, metadata: MetadataStore
) -> None:
    """Deletes everything that the record of this version and those below it name. Ledgers first, their names last:
    after an interruption anywhere, the record still lists the remaining work. Another broker may have finished it, and
    a topic of that name may have been created since: only data that is unchanged below that version is deleted."""
    doomed = list(chain)
    for _ in range(METADATA_CHECKED_TRIES_MAX):
        below = [(f"{path}/{part}", node) async for part, node in metadata.scan(path)]
        node = await metadata.fresh(path)
        if node is None or node.stat.version != version:
            return  # another topic can only be created after it: the records read below may belong to that one
        for child, record in below:
            doomed += sorted(named_ledgers(child, record.value) or ())
        for ledger in doomed:
            await ledgers.delete(ledger)
        doomed.clear()
        for child, record in sorted(below, key=lambda one: -one[0].count("/")):
            await _remove(child, record.stat.version, metadata)
        if await _remove(path, version, metadata):
            return
    raise NotReady("other nodes create records below a record that is being deleted: try again", path=path)


async def _remove(path: str, version: int, metadata: MetadataStore) -> bool:
    """False: something is below it. One that has changed is not ours to remove."""
    try:
        await metadata.delete(path, expected=version)
    except (NotFound, BadVersion):
        pass
    except NotEmpty:
        return False
    return True


def named_ledgers(path: str, value: bytes) -> set[int] | None:
    """Every ledger that a record names. None: the record cannot be read (damaged, or newer than this version), so none
    of its ledgers may be taken for an orphan."""
    try:
        record = decode_record(path, value, VERSION)
        named = {int(item["id"]) for item in record.get("ledgers") or []}
        snapshot = record.get("snapshot")
        return named if snapshot is None else named | {int(snapshot["ledger"])}
    except (Corrupt, Refused, AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
