"""The demo's judge says no when it should: lost, disordered, nothing shown; and counts what came again."""

from __future__ import annotations

from magnetar.cli.demo.delivery_check import DeliveryTally, Kind


def a_tally(*receipts: tuple[int, int], kinds: list[Kind] | None = None) -> DeliveryTally:
    tally = DeliveryTally(kinds or [Kind.EXCLUSIVE])
    for key, number in receipts:
        tally.sending()
        tally.receipt(key, number)
    return tally


def arrive(tally: DeliveryTally, kind: Kind, *messages: tuple[int, int]) -> None:
    for key, number in messages:
        tally.arrivals[kind].add(key, number)


def test_everything_acknowledged_arrived_in_order() -> None:
    tally = a_tally((1, 0), (1, 1), (2, 0))
    arrive(tally, Kind.EXCLUSIVE, (2, 0), (1, 0), (1, 1))
    assert tally.settled()
    assert tally.verdict().ok
    assert tally.verdict().sentence() == "every acknowledged message arrived, in the order of its key"


def test_one_lost_of_many_is_no_although_as_many_arrived() -> None:
    """One that was sent without a receipt must not make up for one that was promised."""
    tally = a_tally((1, 0), (1, 1))
    tally.sending()
    tally.failure()
    arrive(tally, Kind.EXCLUSIVE, (1, 0), (1, 2))
    assert tally.backlog(Kind.EXCLUSIVE) == 0
    assert not tally.settled()
    verdict = tally.verdict()
    assert not verdict.ok
    assert verdict.subscriptions[0].missing == 1
    assert verdict.sentence() == "1 acknowledged messages are missing, 0 arrived out of order"


def test_key_out_of_order_is_no_where_order_is_promised() -> None:
    tally = a_tally((1, 0), (1, 1), kinds=[Kind.KEY_SHARED, Kind.SHARED])
    for kind in (Kind.KEY_SHARED, Kind.SHARED):
        arrive(tally, kind, (1, 1), (1, 0))
    verdict = tally.verdict()
    assert [judged.disordered for judged in verdict.subscriptions] == [1, 1]
    assert [judged.ok for judged in verdict.subscriptions] == [False, True]
    assert not verdict.ok


def test_other_keys_may_overtake() -> None:
    tally = a_tally((1, 0), (2, 0), (2, 1))
    arrive(tally, Kind.EXCLUSIVE, (2, 0), (2, 1), (1, 0))
    assert tally.verdict().ok


def test_what_comes_again_is_counted_and_is_no_disorder() -> None:
    tally = a_tally((1, 0), (1, 1), (1, 2))
    arrive(tally, Kind.EXCLUSIVE, (1, 0), (1, 1), (1, 0), (1, 1), (1, 2))
    verdict = tally.verdict()
    assert verdict.ok
    assert verdict.subscriptions[0].duplicates == 2
    assert verdict.subscriptions[0].arrived == 3


def test_one_late_among_later_ones_is_counted_once() -> None:
    tally = a_tally(*((1, number) for number in range(5)))
    arrive(tally, Kind.EXCLUSIVE, (1, 0), (1, 3), (1, 1), (1, 2), (1, 4))
    assert tally.verdict().subscriptions[0].disordered == 2


def test_message_without_receipt_is_not_owed_and_keeps_verdict_open() -> None:
    tally = a_tally((1, 0))
    tally.sending()
    arrive(tally, Kind.EXCLUSIVE, (1, 0))
    assert not tally.settled()  # its outcome is not known yet
    tally.failure()
    assert tally.settled()
    assert tally.verdict().ok
    assert tally.verdict().failed == 1


def test_arrival_before_its_receipt_leaves_no_negative_backlog() -> None:
    tally = a_tally((1, 0))
    tally.sending()
    arrive(tally, Kind.EXCLUSIVE, (1, 0), (1, 1))
    assert tally.backlog(Kind.EXCLUSIVE) == 0
    tally.receipt(1, 1)
    assert tally.settled()


def test_every_subscription_is_owed_everything() -> None:
    tally = a_tally((1, 0), kinds=[Kind.EXCLUSIVE, Kind.SHARED])
    arrive(tally, Kind.EXCLUSIVE, (1, 0))
    assert tally.backlog(Kind.SHARED) == 1
    assert not tally.verdict().ok


def test_nothing_acknowledged_shows_nothing() -> None:
    verdict = a_tally().verdict()
    assert not verdict.ok
    assert "nothing" in verdict.sentence()


def test_document_carries_judgement() -> None:
    tally = a_tally((1, 0))
    arrive(tally, Kind.EXCLUSIVE, (1, 0))
    document = tally.verdict().document()
    assert document["ok"] is True
    assert document["subscriptions"] == [
        {"type": "Exclusive", "arrived": 1, "missing": 0, "disordered": 0, "ordered": True, "duplicates": 0, "ok": True}
    ]


def test_message_is_owed_to_subscriptions_of_its_own_topic() -> None:
    tally = a_tally((1, 0), kinds=[Kind.EXCLUSIVE, Kind.STREAM])
    tally.sending()
    assert tally.in_flight == 1
    tally.receipt(2, 0, scalable=True)
    assert (tally.backlog(Kind.EXCLUSIVE), tally.backlog(Kind.STREAM)) == (1, 1)
    arrive(tally, Kind.EXCLUSIVE, (1, 0))
    arrive(tally, Kind.STREAM, (1, 0))  # of the other topic: it makes up for nothing
    assert not tally.settled()
    assert [judged.missing for judged in tally.verdict().subscriptions] == [0, 1]
    arrive(tally, Kind.STREAM, (2, 0))
    assert tally.settled()
    assert tally.verdict().ok
