"""The load of one segment as its owner measures it, and where its keys are.

A value that owners send to the leader of a topic, and that traces record. Rates are per second over the last complete
interval. `cells` are the weights of equal parts of the hash range; `hot` names the heaviest slots.
"""

from __future__ import annotations

import msgspec

from magnetar.layout.autoscale.policy import RATES, Thresholds


class HotKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """`share`: the part of the segment's sampled messages in this slot. `key`: the last sampled key there, cut."""

    slot: int
    share: float
    key: str = ""


class SegmentLoad(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`measured_s`: for how long the rates are measured; 0: the segment is not in memory, so it has no traffic."""

    measured_s: float = 0.0
    msg_rate_in: float = 0.0
    bytes_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    bytes_rate_out: float = 0.0
    backlog_age_s: float = 0.0  # of the oldest message that a subscription with consumers has not acknowledged
    backlogs: tuple[str, ...] = ()  # the subscriptions that have one
    consumers: int = 0
    cells: tuple[float, ...] = ()
    hot: tuple[HotKey, ...] = ()
    sampled: int = 0  # messages with their keys in `cells`

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """In the order of `RATES`."""
        return self.msg_rate_in, self.bytes_rate_in, self.msg_rate_out, self.bytes_rate_out

    def score(self, thresholds: Thresholds) -> tuple[float, str]:
        """The largest ratio of a rate to its threshold, with the name of the rate; the first of equal ones."""
        ratios = [
            rate / limit if limit else (float("inf") if rate else 0.0)
            for rate, limit in zip(self.rates, thresholds.values, strict=True)
        ]
        best = max(range(len(ratios)), key=lambda index: (ratios[index], -index))
        return ratios[best], RATES[best]

    def is_cold(self, thresholds: Thresholds) -> bool:
        """All four rates are below."""
        return all(rate < limit for rate, limit in zip(self.rates, thresholds.values, strict=True))


UNLOADED = SegmentLoad()


def key_share(load: SegmentLoad) -> float:
    """The part of the messages in the heaviest of the equal parts of the range."""
    total = sum(load.cells)
    return max(load.cells) / total if total > 0 else 0.0
