# long: one table of histories that are wrong and one of those that are legal, read side by side
"""The checkers of what real clients saw: histories that are wrong in one way are found, legal ones are let through.

Legal is more than it seems: outcomes that nobody knows, sends that are repeated, messages that come again after a
crash, consumers that take over.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulation import history as record
from simulation.check.suite import check_history
from simulation.history import FAIL, INVOKE, OK, UNKNOWN, History, Place, Value

TOPIC = "persistent://public/default/t"
SUB = "s"


class Tale:
    """A history told in few words. Message `n` stands at entry `n` of ledger 1 unless it is said otherwise."""

    def __init__(
        self, kind: str = "Exclusive", *, once: bool = False, kept: bool = True, earliest: bool = True
    ) -> None:
        self.history = History()
        self.kind = kind
        self.earliest = earliest
        self.history.note("world", record.TOPIC, OK, TOPIC, deduplication=once, kept=kept)

    def begin(self, n: int, key: str = "k", *, session: int = 1, epoch: int = 0, **facts: object) -> Tale:
        value = Value("p", key, n)
        self.history.note("p", record.SEND, INVOKE, TOPIC, value=value, session=session, epoch=epoch, **facts)
        return self

    def end(
        self,
        n: int,
        phase: str = OK,
        key: str = "k",
        *,
        at: Place | None = None,
        session: int = 1,
        epoch: int = 0,
        silent: bool = False,
    ) -> Tale:
        place = (at or (1, n, 0)) if phase == OK and not silent else None
        value = Value("p", key, n)
        self.history.note("p", record.SEND, phase, TOPIC, value=value, place=place, session=session, epoch=epoch)
        return self

    def send(self, *numbers: int, key: str = "k", session: int = 1) -> Tale:
        for n in numbers:
            self.begin(n, key, session=session).end(n, key=key, session=session)
        return self

    def named(
        self, n: int, phase: str = OK, *, at: Place | None = None, session: int = 1, silent: bool = False
    ) -> Tale:
        return self.begin(n, session=session, name="p", sequence=n).end(n, phase, at=at, session=session, silent=silent)

    def of(self, operation: str, phase: str, *, sub: str = SUB, session: int = 10, **more: object) -> Tale:
        self.history.note(f"c{session}", operation, phase, TOPIC, subscription=sub, session=session, **more)  # type: ignore[arg-type]
        return self

    def sub(self, *, sub: str = SUB, session: int = 10, phase: str = OK, kind: str = "") -> Tale:
        facts = {"type": kind or self.kind, "earliest": self.earliest}
        self.of(record.SUBSCRIBE, INVOKE, sub=sub, session=session, **facts)
        return self.of(record.SUBSCRIBE, phase, sub=sub, session=session, **facts)

    def get(
        self,
        *numbers: int,
        key: str = "k",
        at: Place | None = None,
        session: int = 10,
        epoch: int = 1,
        sub: str = SUB,
        producer: str = "p",
    ) -> Tale:
        for n in numbers:
            value = Value(producer, key, n)
            place = at or (1, n, 0)
            self.of(record.RECEIVE, OK, sub=sub, session=session, epoch=epoch, value=value, place=place)
        return self

    def ack(self, *numbers: int, session: int = 10, confirmed: bool = False, cumulative: bool = False) -> Tale:
        facts = {"cumulative": True} if cumulative else {}
        for n in numbers:
            self.of(record.ACK, INVOKE, session=session, epoch=1, place=(1, n, 0), **facts)
            if confirmed:
                self.of(record.ACK, OK, session=session, epoch=1, place=(1, n, 0))
        return self

    def nack(self, n: int, *, session: int = 10, epoch: int = 1) -> Tale:
        return self.of(record.NACK, OK, session=session, epoch=epoch, place=(1, n, 0))

    def settled(self, sub: str = SUB, *, there: list[tuple[int, int]] | None = None) -> Tale:
        """`there` are the attachments of those who came to the end; None: nobody looked."""
        return self.of(
            record.SETTLE, OK, sub=sub, **({} if there is None else {"attachments": [list(pair) for pair in there]})
        )

    def drained(self, *numbers: int, session: int = 99) -> Tale:
        """All left; a fresh consumer gets these, and then nothing more."""
        self.of(record.DRAIN, INVOKE, session=session)
        return self.sub(session=session).get(*numbers, session=session).of(record.DRAIN, OK, session=session)

    def seek(self, n: int | None, phase: str = OK) -> Tale:
        place = None if n is None else (1, n, 0)
        return self.of(record.SEEK, INVOKE, place=place).of(record.SEEK, phase, place=place)

    def fault(self) -> Tale:
        self.history.note("world", record.FAULT, OK, what="crash")
        return self

    def about_topic(self, operation: str, phase: str, **more: object) -> Tale:
        self.history.note("admin", operation, INVOKE, TOPIC)
        self.history.note("admin", operation, phase, TOPIC, **more)  # type: ignore[arg-type]
        return self

    def listed(self, *subscriptions: str) -> Tale:
        self.history.note("admin", record.LIST, OK, TOPIC, subscriptions=list(subscriptions))
        return self


BAD: dict[str, tuple[int, Callable[[], Tale]]] = {
    # 1: lost
    "acked and never delivered": (1, lambda: Tale("Shared").sub().send(0, 1).get(0).settled()),
    "acked and not there for a fresh consumer": (1, lambda: Tale("Shared").sub().send(0, 1).drained(0)),
    "missing from the log": (1, lambda: Tale("Reader").send(0, 1, 2).sub().get(0, 1).of(record.DRAIN, OK)),
    "acked as a duplicate and nowhere": (
        1,
        lambda: Tale("Shared", once=True).sub().named(0, UNKNOWN).named(0, silent=True).settled(),
    ),
    "lost behind a deletion that was refused": (
        1,
        lambda: Tale("Shared").sub().send(0).about_topic(record.DELETE, FAIL).settled(),
    ),
    "lost for a subscription that starts at the end, sent later": (
        1,
        lambda: Tale("Shared", earliest=False).sub().send(0).settled(),
    ),
    "lost for a subscription that was made anew": (
        1,
        lambda: (
            Tale("Shared")
            .sub()
            .send(0)
            .get(0)
            .of(record.UNSUBSCRIBE, INVOKE)
            .of(record.UNSUBSCRIBE, OK)
            .sub(session=11)
            .settled()
        ),
    ),
    # 2: invented
    "never sent": (2, lambda: Tale("Shared").sub().send(0).get(0, 1)),
    "sent to nobody": (2, lambda: Tale("Shared").sub().get(0, producer="q")),
    "delivered before it was sent": (2, lambda: Tale("Shared").sub().get(0).send(0)),
    "noise": (2, lambda: Tale("Shared").sub().of(record.RECEIVE, OK, place=(1, 0, 0))),
    "another key": (
        2,
        lambda: (
            Tale("Shared")
            .sub()
            .send(0)
            .of(record.RECEIVE, OK, place=(1, 0, 0), value=Value("p", "k", 0), key="other", epoch=1)
        ),
    ),
    # 3: duplicates
    "stored twice with deduplication": (
        3,
        lambda: Tale("Shared", once=True).sub().named(0, UNKNOWN).named(0, at=(1, 1, 0), session=2).get(0),
    ),
    "stored twice by the client's own repetition": (
        3,
        lambda: Tale("Shared", once=True).sub().begin(0).end(0, epoch=1).get(0).get(0, at=(1, 7, 0)),
    ),
    "stored twice though written once": (3, lambda: Tale("Shared").sub().send(0).get(0).get(0, at=(1, 1, 0))),
    "stored more often than written": (
        3,
        lambda: Tale("Shared").sub().begin(0).end(0, epoch=1).get(0).get(0, at=(1, 1, 0)).get(0, at=(1, 2, 0)),
    ),
    "two values under one sequence id": (
        3,
        lambda: Tale("Shared", once=True).sub().named(0).begin(1, name="p", sequence=0).end(1).get(0, 1),
    ),
    # 4: order
    "log out of order": (
        4,
        lambda: Tale("Shared").sub().begin(0).begin(1).end(0, at=(1, 1, 0)).end(1, at=(1, 0, 0)),
    ),
    "log out of order inside a batch": (
        4,
        lambda: (
            Tale("Shared")
            .sub()
            .begin(0)
            .begin(1)
            .end(0, UNKNOWN)
            .end(1, UNKNOWN)
            .get(1, at=(1, 0, 0))
            .get(0, at=(1, 0, 1))
        ),
    ),
    "a resend of an older one stored behind a younger one": (
        4,
        lambda: (
            Tale("Shared", once=True).sub().named(0, UNKNOWN).named(1, at=(1, 0, 0)).named(0, at=(1, 1, 0), session=2)
        ),
    ),
    "first deliveries out of order": (4, lambda: Tale().sub().send(0, 1).get(1, 0)),
    "an older one is never delivered": (4, lambda: Tale().sub().send(0, 1).get(1)),
    "going back unprovoked": (4, lambda: Tale().sub().send(0, 1).get(0, 1, 0)),
    "a redelivery before an older unacknowledged one, after coming back": (
        4,
        lambda: Tale().sub().send(0, 1).get(0, 1).get(1, epoch=2),
    ),
    "a redelivery before an older unacknowledged one, after a refusal": (
        4,
        lambda: Tale().sub().send(0, 1, 2).get(0, 1, 2).nack(1).get(1, 2),
    ),
    "the next active consumer does not get what the last one left": (
        4,
        lambda: Tale("Failover").sub().sub(session=11).send(0, 1, 2).get(0, 1).ack(1).get(2, session=11),
    ),
    "the next active consumer gets them in the wrong order": (
        4,
        lambda: Tale("Failover").sub().sub(session=11).send(0, 1).get(0).get(1, 0, session=11),
    ),
    "a key at two consumers while an older one is unacknowledged": (
        4,
        lambda: Tale("Key_Shared").sub().sub(session=11).send(0, 1).get(0).get(1, session=11),
    ),
    "a key out of order at its consumer": (
        4,
        lambda: Tale("Key_Shared").sub().send(0, 1).get(1).get(0),
    ),
    "a key taken over from its middle": (
        4,
        lambda: Tale("Key_Shared").sub().sub(session=11).send(0, 1).get(0, 1).ack(1).fault().get(1, session=11),
    ),
    "a reader sees one twice": (4, lambda: Tale("Reader").sub().send(0, 1).get(0, 1).get(1, epoch=2)),
    "a reader that comes back misses one": (4, lambda: Tale("Reader").sub().send(0, 1, 2).get(0).get(2, epoch=2)),
    # 6: single writer
    "two stories of one place": (
        6,
        lambda: Tale("Shared").sub().send(0).get(0).begin(1).end(1, UNKNOWN).get(1, at=(1, 0, 0)),
    ),
    "a receipt for a place of another": (
        6,
        lambda: Tale("Shared").sub().begin(0).end(0, at=(1, 5, 0)).begin(1).end(1, UNKNOWN).get(1, at=(1, 5, 0)),
    ),
    "two receipts for one place": (
        6,
        lambda: Tale("Shared").send(0).begin(1, session=2).end(1, at=(1, 0, 0), session=2),
    ),
    "an old owner goes on acknowledging": (
        6,
        lambda: Tale("Shared").begin(0).end(0, at=(2, 0, 0)).begin(1, session=2).end(1, at=(1, 7, 0), session=2),
    ),
    "a message behind the final position": (
        6,
        lambda: Tale("Shared").sub().send(0).about_topic(record.TERMINATE, OK, place=(1, 0, 0)).begin(1).end(1).get(0),
    ),
    # 9: cursors
    "not acknowledged and never again": (9, lambda: Tale("Shared").sub().send(0, 1).get(0, 1).ack(0).fault().drained()),
    "an older one skipped because a younger was acknowledged": (
        9,
        lambda: Tale("Shared").sub().send(0, 1).get(0, 1).ack(1).fault().drained(),
    ),
    "one of a batch skipped with the rest of it": (
        9,
        lambda: (
            Tale("Shared")
            .sub()
            .begin(0)
            .begin(1)
            .end(0, at=(1, 0, 0))
            .end(1, at=(1, 0, 1))
            .get(0, at=(1, 0, 0))
            .get(1, at=(1, 0, 1))
            .ack(0)
            .drained()
        ),
    ),
    "forgotten after a seek back": (
        9,
        lambda: Tale().sub().send(0, 1).get(0, 1).ack(0, 1).seek(0).get(0).ack(0).drained(),
    ),
    "left by one who is gone, and nobody else got it": (
        9,
        lambda: (
            Tale("Shared").sub().sub(session=11).send(0, 1).get(0).get(1, session=11).ack(1).settled(there=[(11, 1)])
        ),
    ),
    "left before the consumer came back, and not delivered again": (
        9,
        lambda: Tale("Shared").sub().send(0, 1).get(0, 1).ack(1).settled(there=[(10, 2)]),
    ),
    "refused, and not delivered again": (
        9,
        lambda: Tale("Shared").sub().send(0).get(0).nack(0).settled(there=[(10, 1)]),
    ),
    "an acknowledgement with a receipt undone by nobody": (
        9,
        lambda: Tale("Shared").sub().send(0).get(0).ack(0, confirmed=True).get(0),
    ),
    # 16: the truth
    "refused and delivered": (16, lambda: Tale("Shared").sub().begin(0).end(0, FAIL).get(0)),
    "refused twice and delivered": (
        16,
        lambda: Tale("Shared").sub().begin(0).end(0, FAIL).begin(0).end(0, FAIL).fault().get(0),
    ),
    "a subscription that was refused": (16, lambda: Tale("Shared").sub(phase=FAIL).listed(SUB)),
    "a subscription that is gone": (16, lambda: Tale("Shared").sub().listed()),
    "a subscription gone though its deletion was refused": (
        16,
        lambda: Tale("Shared").sub().of(record.UNSUBSCRIBE, INVOKE).of(record.UNSUBSCRIBE, FAIL).listed(),
    ),
    "a subscription back after its deletion": (
        16,
        lambda: Tale("Shared").sub().of(record.UNSUBSCRIBE, INVOKE).of(record.UNSUBSCRIBE, OK).listed(SUB),
    ),
}


GOOD: dict[str, Callable[[], Tale]] = {
    "all is well": lambda: Tale().sub().send(0, 1, 2).get(0, 1, 2).ack(0, 1, 2).settled().drained(),
    "what was not acknowledged comes again": lambda: Tale("Shared").sub().send(0, 1).get(1, 0).ack(1).drained(0),
    "unknown, and there": lambda: Tale().sub().begin(0).end(0, UNKNOWN).send(1).get(0, 1).settled(),
    "unknown, and not there": lambda: Tale().sub().begin(0).end(0, UNKNOWN).send(1).get(1).settled(),
    "never answered, and there": lambda: Tale().sub().begin(0).get(0).settled(),
    "refused, and not there": lambda: Tale().sub().begin(0).end(0, FAIL).send(1).get(1).settled(),
    "refused once, stored at the second attempt": lambda: (
        Tale().sub().begin(0).end(0, FAIL).begin(0, session=2).end(0, session=2).get(0).settled()
    ),
    "an unknown one of an older producer object stands behind a younger one": lambda: (
        Tale("Shared")
        .sub()
        .begin(0)
        .end(0, UNKNOWN)
        .begin(1, session=2)
        .end(1, at=(1, 0, 0), session=2)
        .get(0, at=(1, 1, 0))
    ),
    "without deduplication a client repeats, and first deliveries keep their order": lambda: (
        Tale()
        .sub()
        .begin(0)
        .begin(1)
        .end(0, at=(1, 2, 0), epoch=1)
        .end(1, at=(1, 3, 0), epoch=1)
        .get(0, at=(1, 0, 0))
        .get(1, at=(1, 1, 0))
        .get(0, at=(1, 2, 0))
        .get(1, at=(1, 3, 0))
        .settled()
    ),
    "with deduplication a repetition has a receipt without a place": lambda: (
        Tale(once=True)
        .sub()
        .named(0, UNKNOWN)
        .named(1, UNKNOWN)
        .named(0, silent=True, session=2)
        .named(1, silent=True, session=2)
        .get(0, 1)
        .settled()
    ),
    "what is not acknowledged is with somebody who is there": lambda: (
        Tale("Shared")
        .sub()
        .sub(session=11)
        .send(0, 1, 2)
        .get(0, 1)
        .get(0, 1, session=11)
        .nack(1, session=11)
        .get(1, session=11)
        .get(2, epoch=2)
        .settled(there=[(11, 1), (10, 2)])
    ),
    "Shared has no order": lambda: (
        Tale("Shared").sub().sub(session=11).send(0, 1, 2).get(2).get(1, 0, session=11).settled()
    ),
    "Key_Shared has no order between keys": lambda: (
        Tale("Key_Shared")
        .sub()
        .sub(session=11)
        .send(0, key="a")
        .send(1, key="b")
        .get(1, key="b")
        .get(0, key="a", session=11)
    ),
    "a key moves when the older are acknowledged": lambda: (
        Tale("Key_Shared").sub().sub(session=11).send(0, 1).get(0).ack(0).get(1, session=11).settled()
    ),
    "a key moves with all that a lost consumer had": lambda: (
        Tale("Key_Shared").sub().sub(session=11).send(0, 1, 2).get(0, 1).fault().get(0, 1, 2, session=11).settled()
    ),
    "a consumer that was cut off goes on with its queue": lambda: (
        Tale("Key_Shared")
        .sub()
        .sub(session=11)
        .send(0, 1, 2)
        .get(0)
        .fault()
        .get(0, 1, session=11)
        .get(1)
        .get(2, session=11)
    ),
    "a refused entry of Key_Shared comes again behind what was queued": lambda: (
        Tale("Key_Shared").sub().send(0, 1).get(0).nack(0).get(1, 0).ack(0, 1).settled()
    ),
    "a refusal brings everything again, in order": lambda: (
        Tale().sub().send(0, 1, 2).get(0, 1).nack(0).get(0, 1, 2).ack(0, 1, 2).settled()
    ),
    "two refusals, two redeliveries": lambda: Tale().sub().send(0, 1).get(0, 1).nack(0).nack(1).get(0, 1).get(0, 1),
    "Exclusive comes back at the first that is not acknowledged": lambda: (
        Tale().sub().send(0, 1, 2).get(0, 1).ack(0).fault().get(1, 2, epoch=2).settled()
    ),
    "a crash steps back behind acknowledgements": lambda: (
        Tale().sub().send(0, 1, 2).get(0, 1).ack(0, 1, confirmed=True).fault().get(0, 1, 2, epoch=2).settled()
    ),
    "a cumulative acknowledgement covers what is before it": lambda: (
        Tale().sub().send(0, 1, 2).get(0, 1, 2).ack(1, cumulative=True).fault().get(2, epoch=2).drained(2)
    ),
    "Failover: the next one gets what is not acknowledged, then goes on": lambda: (
        Tale("Failover").sub().sub(session=11).send(0, 1, 2).get(0, 1).ack(0).get(1, 2, session=11).settled()
    ),
    "Failover: back and forth, the first with its old queue": lambda: (
        Tale("Failover")
        .sub()
        .sub(session=11)
        .send(0, 1, 2)
        .get(0)
        .get(0, 1, session=11)
        .get(1, 2)
        .get(0, 1, 2)
        .settled()
    ),
    "a later subscription from the end is owed what is sent later only": lambda: (
        Tale(earliest=False).send(0).sub().send(1).get(1).settled()
    ),
    "a trimmed topic owes a later subscription nothing older": lambda: (
        Tale(kept=False).send(0).sub().send(1).get(1).settled()
    ),
    "a seek back brings it again": lambda: (
        Tale().sub().send(0, 1).get(0, 1).ack(0, 1).seek(0).get(0, 1).ack(0, 1).drained()
    ),
    "a seek forward owes nothing before it": lambda: (
        Tale().sub().send(0, 1, 2).get(0).seek(2).get(2).ack(2).settled().drained()
    ),
    "a seek of which nobody knows may have moved it or not": lambda: (
        Tale().sub().send(0, 1, 2).get(0, 1).seek(0, UNKNOWN).get(2).get(0, 1).settled()
    ),
    "a seek that was refused has not moved it": lambda: (
        Tale().sub().send(0, 1).get(0).seek(0, FAIL).get(1).ack(0, 1).drained()
    ),
    "made anew, it begins at the beginning": lambda: (
        Tale()
        .sub()
        .send(0, 1)
        .get(0, 1)
        .ack(0, 1)
        .of(record.UNSUBSCRIBE, INVOKE)
        .of(record.UNSUBSCRIBE, OK)
        .sub(session=11)
        .get(0, 1, session=11)
        .settled()
    ),
    "deleted, or maybe not": lambda: (
        Tale()
        .sub()
        .send(0, 1)
        .get(0, 1)
        .ack(0, 1)
        .of(record.UNSUBSCRIBE, INVOKE)
        .of(record.UNSUBSCRIBE, UNKNOWN)
        .sub(session=11)
        .listed(SUB)
        .settled()
    ),
    "a deleted topic owes nothing": lambda: (
        Tale("Shared").sub().send(0).about_topic(record.DELETE, OK).sub(session=11).send(1).get(1).settled()
    ),
    "a topic that may be deleted owes nothing": lambda: (
        Tale("Shared").sub().send(0).about_topic(record.DELETE, UNKNOWN).sub(session=11).send(1).get(1).settled()
    ),
    "a reader goes on where it was": lambda: (
        Tale("Reader").sub().send(0, 1, 2).get(0).fault().get(1, 2, epoch=2).of(record.DRAIN, OK)
    ),
    "batches by key keep the order of each key": lambda: (
        Tale("Key_Shared")
        .sub()
        .begin(0, "a", by_key=True)
        .begin(1, "b", by_key=True)
        .begin(2, "a", by_key=True)
        .end(0, key="a", at=(1, 0, 0))
        .end(2, key="a", at=(1, 0, 1))
        .end(1, key="b", at=(1, 1, 0))
    ),
    "refused for another, got by one": lambda: Tale().sub().sub(session=11, phase=FAIL).listed(SUB),
    "nobody knows whether it was made": lambda: Tale().sub(phase=UNKNOWN).listed(SUB),
    "a confirmed acknowledgement from before the last attachment may be too late": lambda: (
        Tale("Shared")
        .sub()
        .send(0)
        .get(0)
        .fault()
        .of(record.ACK, INVOKE, place=(1, 0, 0), epoch=2)
        .of(record.ACK, OK, place=(1, 0, 0), epoch=2)
        .get(0, epoch=2)
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_breach_is_found(name: str) -> None:
    invariant, tell = BAD[name]
    findings = check_history(tell().history)
    assert invariant in {finding.invariant for finding in findings}, findings
    for finding in findings:
        assert finding.lines
        assert finding.topic == TOPIC


@pytest.mark.parametrize("name", GOOD)
def test_what_is_legal_is_let_through(name: str) -> None:
    assert [str(finding) for finding in check_history(GOOD[name]().history)] == []


def test_sample_beyond_its_limit_is_found_once_at_its_worst() -> None:
    history = History()
    for value in (3, 9, 12, 11):
        history.note("connections", record.SAMPLE, OK, measured=value, limit=10)
    findings = check_history(history)
    assert [(finding.invariant, finding.lines[0].facts["measured"]) for finding in findings] == [(15, 12)]


def test_history_from_file_gets_same_verdict() -> None:
    for _, tell in BAD.values():
        history = tell().history
        assert [str(finding) for finding in check_history(History.load(history.dump()))] == [
            str(finding) for finding in check_history(history)
        ]
