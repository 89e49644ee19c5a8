"""The choice of a broker for a bundle without an owner: highest random weight. The decision uses names only.

Brokers that see the same list of brokers choose the same one. A broker that joins or leaves moves only the bundles that
it gains or had. The choice ignores load and does not check that the broker responds.
"""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.base.hashes import murmur3, utf8


def choose(bundle: str, brokers: Iterable[str]) -> str | None:
    """The broker with the highest weight for this bundle; None without brokers."""
    return max(brokers, key=lambda broker: (murmur3(utf8(f"{bundle} {broker}")), broker), default=None)
