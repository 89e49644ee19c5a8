"""Which broker should take a bundle that nobody has: highest random weight. A decision over names alone.

Every broker that sees the same brokers answers the same, and a broker that comes or goes moves only the bundles that
it wins or had. It knows nothing of load and does not care whether a broker answers.
"""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.base.hashes import murmur3, utf8


def choose(bundle: str, brokers: Iterable[str]) -> str | None:
    """The broker of these ids with the greatest weight for this bundle; None of none."""
    return max(brokers, key=lambda broker: (murmur3(utf8(f"{bundle} {broker}")), broker), default=None)
