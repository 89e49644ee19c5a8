"""Publishes the messages of one producer: checks them, appends them to the ledger, and answers with receipts.

`publish` takes everything that one producer sent in one read. Deduplication may cut it into several runs. Each run is
one append, one callback (`Publication.done`) and one write of receipts. No object is made for a single message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import Corrupt, Fenced, MagnetarError
from magnetar.ledger.run import Run
from magnetar.topic.dedup.dedup import KeylessSpread, Verdict, recorded
from magnetar.topic.producers.producer import Producer
from magnetar.topic.write_metrics import Writes
from magnetar.wire import commands, entry
from magnetar.wire.broker_frames import DUPLICATE, receipt, receipts
from magnetar.wire.send_reader import SendRun

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic

PERSISTENCE_ERROR = 2
DedupMark = (
    int | list[tuple[int | None, int]]
)  # the highest id, -1: nothing; or by key hash, None: a batch of several keys


class Publication:
    """One run in flight: remembers whom to answer, and what else must go out behind that answer."""

    __slots__ = ("after", "began", "highest_ids", "mark", "producer", "sequence_ids", "topic")

    def __init__(
        self, topic: Topic, producer: Producer, sequence_ids: list[int], highest_ids: list[int], mark: DedupMark
    ) -> None:
        self.topic = topic
        self.producer = producer
        self.sequence_ids = sequence_ids
        self.highest_ids = highest_ids
        self.mark = mark  # what deduplication will remember of it
        self.after: list[bytes] | None = None
        self.began = topic.runtime.monotonic()

    def done(self, run: Run, error: MagnetarError | None) -> None:
        if error is not None:
            self._failed(run, error)
            return
        producer, topic = self.producer, self.topic
        outlet, size = producer.outlet, run.size
        topic.in_flight -= 1
        outlet.released(size)
        if topic.dedup is not None:
            remember(topic.dedup.persisted, producer.base, self.mark)
        # No receipt after CLOSE_PRODUCER (seam `Topic.seal`): a closed producer's client will ask again.
        if not producer.closed:
            highest_ids = None if self.highest_ids is self.sequence_ids else self.highest_ids
            outlet.write_soon(receipts(producer.id, self.sequence_ids, highest_ids, run.ledger, run.first))
        producer.messages_in += run.messages
        producer.bytes_in += size
        writes = topic.writes
        if writes is None:
            writes = topic.writes = Writes()
        writes.record(len(run.counts), size, topic.runtime.monotonic() - self.began)
        if self.after is not None:
            self._answer_after()
        producer.settled(self)
        topic.appended(run, size)

    def _failed(self, run: Run, error: MagnetarError) -> None:
        producer, topic = self.producer, self.topic
        topic.in_flight -= 1
        producer.outlet.released(run.size)
        if topic.dedup is not None:
            topic.dedup.failed(producer.base)
        if not producer.closed:
            refuse(producer, self.sequence_ids, error, now=True)
        if self.after is not None:
            self._answer_after()
        producer.settled(self)
        topic.append_failed(error)

    def _answer_after(self) -> None:
        if not self.producer.closed:
            for frames in self.after or ():
                self.producer.outlet.write(frames)


def publish(topic: Topic, producer: Producer, sends: SendRun) -> None:
    """Stores the messages, or answers with an error. The bytes count as pending until `ClientChannel.released`."""
    if producer.closed or topic.closing:
        # After a CLOSE_PRODUCER, or before one that waits only for answers in flight: the client looks the topic up
        # and sends these messages again.
        producer.outlet.released(len(sends.body))
        return
    refusal = topic.refusal
    if refusal is None and topic.misrouted is not None:
        refusal = topic.misrouted(sends.body, sends.offsets, sends.counts)  # one foreign key: none is stored (H-E10)
    if refusal is not None:
        producer.outlet.released(len(sends.body))
        refuse(producer, sends.sequence_ids, refusal)
        return
    run = Run(sends.body, sends.offsets, sends.counts, sends.messages)
    if topic.dedup is None or not (topic.settings.deduplication or producer.sink):
        # Remembered all the same: deduplication may be switched on before this is confirmed.
        _append(topic, producer, run, sends.sequence_ids, sends.highest_ids, sends.highest_ids[-1])
        return
    last_chunks = None if sends.chunks is None else _last_chunks(run, sends.chunks)
    hashes = spread = None
    if topic.slot_of is not None and topic.dedup.ranged(producer.base):
        hashes = _hashes(topic, run)
        if producer.spreads and topic.spread_of is not None:
            spread = KeylessSpread(partial(topic.spread_of, producer.base), sends.counts)
            hashes = _spread_hashes(run, hashes, sends.sequence_ids, spread)
    verdicts = topic.dedup.check_run(
        producer.base, sends.sequence_ids, sends.highest_ids, last_chunks, key_hashes=hashes, spread=spread
    )
    if verdicts is None:
        mark = _mark(sends.highest_ids, last_chunks, hashes)
        _append(topic, producer, run, sends.sequence_ids, sends.highest_ids, mark)
        return
    _publish_parts(topic, producer, sends, run, verdicts, last_chunks, hashes)


def remember(note: Callable[..., None], producer: str, mark: DedupMark) -> None:
    """Records a run in the deduplication: one mark, or one for each entry if hash ranges have their own marks."""
    if isinstance(mark, int):
        note(producer, mark)
        return
    for key_hash, highest in mark:
        note(producer, highest, key_hash=key_hash)


def _hashes(topic: Topic, run: Run) -> list[int | None]:
    assert topic.slot_of is not None
    return [topic.slot_of(run.body, run.offsets[i], run.offsets[i + 1]) for i in range(len(run.counts))]


def _spread_hashes(
    run: Run, hashes: list[int | None], sequence_ids: list[int], spread: KeylessSpread
) -> list[int | None]:
    """With those of single messages without a key, which lie where their numbers say."""
    return [
        _spread_hash(run, index, sequence_ids[index], spread) if hash is None else hash
        for index, hash in enumerate(hashes)
    ]


def _spread_hash(run: Run, index: int, sequence: int, spread: KeylessSpread) -> int | None:
    try:
        metadata = entry.read(run.body, run.offsets[index], run.offsets[index + 1])
    except Corrupt:
        return None
    if metadata.messages >= 0 or metadata.key is not None or metadata.ordering_key is not None:
        return None  # a batch, or a key of another segment
    return spread.hash_of(sequence)


def _mark(highest_ids: list[int], last_chunks: list[bool] | None, hashes: list[int | None] | None) -> DedupMark:
    if hashes is None:
        return recorded(highest_ids, last_chunks)
    lasts = last_chunks or [True] * len(hashes)
    return [(hashes[i], highest) for i, highest in enumerate(highest_ids) if lasts[i]]


def _last_chunks(run: Run, chunks: list[bool]) -> list[bool]:
    """False for a chunk in the middle of its message: only the last one's sequence id is checked and remembered."""
    return [not chunk or _is_last_chunk(run, index) for index, chunk in enumerate(chunks)]


def _is_last_chunk(run: Run, index: int) -> bool:
    try:
        chunk = entry.chunk(run.body, run.offsets[index], run.offsets[index + 1])
    except Corrupt:
        return True
    return chunk is None or chunk[1] == chunk[2] - 1


def _publish_parts(
    topic: Topic,
    producer: Producer,
    sends: SendRun,
    run: Run,
    verdicts: list[Verdict],
    last_chunks: list[bool] | None,
    hashes: list[int | None] | None,
) -> None:
    """Some of the run is known already: append the new stretches, answer the rest in its place."""
    start = 0
    while start < len(verdicts):
        stop = start + 1
        while stop < len(verdicts) and verdicts[stop] is verdicts[start]:
            stop += 1
        sequence_ids = sends.sequence_ids[start:stop]
        if verdicts[start] is Verdict.NEW:
            highest_ids = sends.highest_ids[start:stop]
            lasts = None if last_chunks is None else last_chunks[start:stop]
            mark = _mark(highest_ids, lasts, None if hashes is None else hashes[start:stop])
            _append(topic, producer, run.slice(start, stop), sequence_ids, highest_ids, mark)
        else:
            producer.outlet.released(run.offsets[stop] - run.offsets[start])
            topic.runtime.mark(f"dedup.{verdicts[start].name.lower()}", topic=str(topic.name), producer=producer.name)
            if verdicts[start] is Verdict.DUPLICATE:
                for index in range(start, stop):
                    sequence, highest = sends.sequence_ids[index], sends.highest_ids[index]
                    producer.answer(receipt(producer.id, sequence, highest, DUPLICATE, DUPLICATE))
            else:
                for sequence_id in sequence_ids:
                    text = (
                        "a message with the same sequence id is being stored and its outcome is unknown: send it again"
                    )
                    producer.answer(commands.send_error(producer.id, sequence_id, PERSISTENCE_ERROR, text))
        start = stop


def _append(
    topic: Topic, producer: Producer, run: Run, sequence_ids: list[int], highest_ids: list[int], mark: DedupMark
) -> None:
    publication = Publication(topic, producer, sequence_ids, highest_ids, mark)
    producer.in_flight += 1
    producer.last = publication
    topic.in_flight += 1
    if topic.dedup is not None:
        remember(topic.dedup.pushed, producer.base, mark)
    topic.managed.append(run, publication.done)


def refuse(producer: Producer, sequence_ids: list[int], error: MagnetarError, *, now: bool = False) -> None:
    """SEND_ERROR for each message: behind the answers in flight, or now if these messages are the ones in flight."""
    # A ledger that another owner took is not the producer's fault; Fenced would make the producer give up.
    code = PERSISTENCE_ERROR if isinstance(error, Fenced) else error.wire_code or PERSISTENCE_ERROR
    for sequence_id in sequence_ids:
        frame = commands.send_error(producer.id, sequence_id, code, error.what)
        if now:
            producer.outlet.write(frame)
        else:
            producer.answer(frame)
