"""Measures the load of one segment at its owner: rates from counters, and a histogram of sampled keys.

The data path calls `sample` for one run in many; all other runs cost one subtraction. The distance between samples
follows the rate, so that a fast segment has no more samples per second than a slow one. A sample reads a few keys of
one entry; a batch that is encrypted or large and compressed counts as messages without keys. Rates are computed when
they are requested: no timer runs for a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from magnetar.base.errors import MagnetarError
from magnetar.base.limits import (
    LOAD_SUBSCRIPTIONS_MAX,
    SKETCH_BATCH_BYTES_MAX,
    SKETCH_BATCH_KEYS_MAX,
    SKETCH_SAMPLES_PER_S,
    SKETCH_STRIDE_SAMPLES,
)
from magnetar.base.ranges import HashRange
from magnetar.layout.autoscale.key_sketch import KeySketch
from magnetar.layout.autoscale.load import SegmentLoad
from magnetar.layout.routing import DEFAULT, Routing, segment_hash
from magnetar.ledger.run import Run
from magnetar.wire import codec, entry
from magnetar.wire.metadata import Metadata, key_of
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic

_Totals = tuple[float, float, float, float]


class LoadMeter:
    """`left` messages may pass before the next sample."""

    __slots__ = ("_at", "_last", "_pick", "_samples", "_stride", "_topic", "_totals", "left", "routing", "sketch")

    def __init__(self, topic: Topic, range: HashRange) -> None:
        self._topic = topic
        self.routing: Routing = DEFAULT
        self.sketch = KeySketch(range)
        self.left = 0
        self._stride = 1
        self._samples = 0  # since the stride changed
        self._pick = 1  # a pseudo-random sequence: producers that send periodically are sampled evenly
        self._at = topic.runtime.monotonic()
        self._totals: _Totals = (0.0, 0.0, 0.0, 0.0)
        self._last = SegmentLoad()

    # The data path

    def sample(self, run: Run) -> None:
        """Called when `left` is below zero."""
        weight = self._stride - self.left
        self._samples += 1
        if self._samples % SKETCH_STRIDE_SAMPLES == 0:
            self._stride *= 2  # faster than expected: the stride is set again after the interval
        self._pick = self._pick * 1103515245 + 12345 & 0x7FFFFFFF
        self.left = self._stride - 1 + (self._pick >> 8) % (self._stride // 2 + 1) - self._stride // 4
        index = _entry_of(run, (self._pick >> 8) % run.messages)
        try:
            keys = _keys(run.body, run.offsets[index], run.offsets[index + 1])
        except (MagnetarError, DecodeError, IndexError, ValueError):
            keys = []  # a consumer of the entry reports the fault
        if not keys:
            self.sketch.add_keyless(weight)
        for key in keys:
            self.sketch.add(segment_hash(key, self.routing), weight / len(keys), key)

    # Asking

    async def measure(self, interval_s: float) -> SegmentLoad:
        """The load of the last interval; a new one begins if it is long enough."""
        topic = self._topic
        now = topic.runtime.monotonic()
        seconds = now - self._at
        if self._last.measured_s and seconds < interval_s:
            return self._last
        totals = self._count()
        rates = [
            max(0.0, after - before) / max(seconds, 1e-3) for after, before in zip(totals, self._totals, strict=True)
        ]
        age_s, backlogs = await self._backlog()
        sketch = self.sketch
        load = SegmentLoad(
            measured_s=seconds,
            msg_rate_in=rates[0],
            bytes_rate_in=rates[1],
            msg_rate_out=rates[2],
            bytes_rate_out=rates[3],
            backlog_age_s=age_s,
            backlogs=backlogs,
            consumers=sum(len(subscription.consumers) for subscription in topic.subscriptions),
            cells=tuple(round(cell, 1) for cell in sketch.histogram()),
            hot=sketch.hot(),
            sampled=sketch.sampled,
        )
        if seconds >= interval_s:
            self._at, self._totals, self._last = now, totals, load
            self._stride = max(1, int(rates[0] / SKETCH_SAMPLES_PER_S))
            self._samples = 0
            self.left = min(self.left, self._stride)
            sketch.decay()
        return load

    def _count(self) -> _Totals:
        topic = self._topic
        messages, size = 0, 0
        for subscription in topic.subscriptions:
            messages += subscription.messages_out + sum(one.messages_out for one in subscription.consumers)
            size += subscription.bytes_out + sum(one.bytes_out for one in subscription.consumers)
        return topic.messages_in, topic.bytes_in, messages, size

    async def _backlog(self) -> tuple[float, tuple[str, ...]]:
        """The age of the oldest message that a subscription with consumers has not acknowledged, and the subscriptions
        with a backlog."""
        now_ms, oldest_s, behind = self._topic.runtime.wall(), 0.0, []
        for subscription in list(self._topic.subscriptions)[:LOAD_SUBSCRIPTIONS_MAX]:
            if not subscription.cursor.backlog:
                continue
            behind.append(subscription.name)
            if subscription.consumers:
                try:
                    lag = await subscription.lag.measure()
                except MagnetarError:
                    continue  # the topic is being closed, or its storage does not answer
                oldest_s = max(oldest_s, lag.at(now_ms).age_s)
        return oldest_s, tuple(behind)


def _entry_of(run: Run, message: int) -> int:
    """The index of the entry with this message of the run: large batches are sampled more often than small ones."""
    if run.messages == len(run.counts):
        return message
    for index, count in enumerate(run.counts):
        message -= count
        if message < 0:
            return index
    return len(run.counts) - 1


def _keys(buffer: bytes, start: int, end: int) -> list[bytes]:
    """Some keys of an entry; none if it has none, or hides them."""
    metadata = entry.read(buffer, start, end)
    if metadata.messages < 0:
        if metadata.key is None and metadata.ordering_key is None:
            return []
        key = key_of(metadata)
        return [] if key is None else [key]
    if metadata.encrypted:
        return []
    payload = _payload(metadata, buffer, start, end)
    return [] if payload is None else _batch_keys(payload, metadata.messages)


def _payload(metadata: Metadata, buffer: bytes, start: int, end: int) -> bytes | None:
    first = entry.metadata_bounds(buffer, start, end)[1]
    if not metadata.compression:
        return buffer[first:end]
    if metadata.uncompressed_size > SKETCH_BATCH_BYTES_MAX:
        return None
    size = metadata.uncompressed_size
    return codec.decompress(metadata.compression, buffer[first:end], size, SKETCH_BATCH_BYTES_MAX)


def _batch_keys(payload: bytes, count: int) -> list[bytes]:
    keys: list[bytes] = []
    position = 0
    for _ in range(min(count, SKETCH_BATCH_KEYS_MAX)):
        after = position + 4 + int.from_bytes(payload[position : position + 4], "big")
        single = pb.SingleMessageMetadata.FromString(payload[position + 4 : after])
        if single.HasField("ordering_key"):
            keys.append(single.ordering_key)
        elif single.HasField("partition_key"):
            keys.append(_key(single.partition_key, single.partition_key_b64_encoded))
        position = after + single.payload_size
    return keys


def _key(text: str, base64: bool) -> bytes:
    metadata = Metadata()
    metadata.key, metadata.key_is_base64 = text.encode("utf-8", "replace"), base64
    return key_of(metadata) or b""
