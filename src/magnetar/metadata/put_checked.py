"""A put that determines its outcome even if the store did not respond (rule 3 of the contract).

After an unknown outcome it reads the record again and compares. Two writers that may write equal bytes for different
reasons must add a token to the value, because equal bytes count as one's own.
"""

from __future__ import annotations

from magnetar.base.errors import BadVersion, MagnetarError, Unknown
from magnetar.base.limits import METADATA_CHECKED_TRIES_MAX
from magnetar.metadata.store import ABSENT, MetadataStore, Node, Stat


async def put_checked(store: MetadataStore, path: str, value: bytes, *, expected: int, ephemeral: bool = False) -> Stat:
    """Compare-and-set that is repeated only while the record still has the version `expected`.

    BadVersion: the record has another value. Unknown: the store did not respond, or our value may have been written and
    then replaced; only the caller can decide that."""
    silent: Unknown | None = None
    for _ in range(METADATA_CHECKED_TRIES_MAX):
        try:
            return await store.put(path, value, expected=expected, ephemeral=ephemeral)
        except BadVersion:
            if silent is None:
                raise  # every try of ours was answered: nothing of ours happened
        except Unknown as error:
            silent = error
        except MagnetarError as error:
            if silent is None:
                raise
            raise silent from error  # an earlier try may have happened: a plain refusal now does not undo it
        try:
            node = await store.fresh(path)
        except Unknown as error:
            silent = error
            continue
        except MagnetarError as error:
            raise silent from error
        if node is not None and node.value == value and node.stat.version != expected:
            return node.stat
        if not _stands(node, expected):
            raise silent
    assert silent is not None
    raise silent


def _stands(node: Node | None, expected: int) -> bool:
    if expected == ABSENT:
        return node is None
    return node is not None and node.stat.version == expected
