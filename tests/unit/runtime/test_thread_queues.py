"""What threads bring and take crosses in order, without a wake-up of the loop for each."""

from __future__ import annotations

import signal
import threading

import pytest

from magnetar.runtime.portal import portal
from magnetar.runtime.thread_queues import CountedOutbox, LoopInbox, PullOutbox, ThreadOutbox

WAIT_S = 60


def test_mailbox_wakes_loop_once_and_keeps_order():
    taken: list[int] = []
    wakes: list[int] = []
    holding = threading.Event()

    def look() -> None:
        wakes.append(1)
        while (item := box.take()) is not None:
            taken.append(item)

    box: LoopInbox[int] = LoopInbox(portal(), look, items_max=1_000)
    portal().tell(lambda: holding.wait(10) and None)
    for number in range(100):
        box.put(number)
    holding.set()
    portal().call(lambda: None)
    assert taken == list(range(100))
    assert len(wakes) == 1


def test_full_mailbox_blocks_putter_until_half_empty():
    box: LoopInbox[int] = LoopInbox(portal(), lambda: None, items_max=4)
    done = threading.Event()

    def put() -> None:
        for number in range(4):
            box.put(number)
        done.set()

    thread = threading.Thread(target=put)
    thread.start()
    while not box._waiting:
        done.wait(0.001)
    assert not done.is_set()
    assert [box.take(), box.take()] == [0, 1]
    assert done.wait(WAIT_S)
    thread.join()
    assert len(box) == 2


def test_patient_mailbox_wakes_loop_for_first_item_only():
    taken: list[int] = []
    second = threading.Event()

    def look() -> None:
        while (item := box.take()) is not None:
            taken.append(item)
        if 2 in taken:
            second.set()

    box: LoopInbox[int] = LoopInbox(portal(), look, items_max=100, patience_s=60)
    box.put(1)
    portal().call(lambda: None)
    assert taken == [1]
    box.put(2)
    portal().call(lambda: None)
    assert taken == [1]
    box = LoopInbox(portal(), look, items_max=100, patience_s=0.001)
    box.put(1)
    portal().call(lambda: None)
    box.put(2)
    assert second.wait(WAIT_S)


def test_patient_mailbox_is_hurried_by_many_items():
    taken: list[int] = []

    def look() -> None:
        while (item := box.take()) is not None:
            taken.append(item)

    box: LoopInbox[int] = LoopInbox(portal(), look, items_max=100, patience_s=60, hurry_items=3)
    for number in range(4):
        box.put(number)
        portal().call(lambda: None)
    assert taken == [0, 1, 2, 3]
    portal().call(box._look_again)
    box.put(4)
    portal().call(lambda: None)
    assert taken == [0, 1, 2, 3, 4]


def nothing_ready() -> bool:
    return False


def no_fetch(timeout_s: float | None) -> None:
    raise AssertionError("nothing was ready")


def test_threads_that_wait_at_shelf_get_one_item_each():
    shelf: ThreadOutbox[int] = ThreadOutbox(portal(), nothing_ready)
    found: list[int | None] = []
    threads = [threading.Thread(target=lambda: found.append(shelf.take(WAIT_S, no_fetch))) for _ in range(3)]
    for thread in threads:
        thread.start()
    portal().call(lambda: shelf.put([1, 2]))
    portal().call(lambda: shelf.put([3]))
    for thread in threads:
        thread.join()
    assert sorted(item or 0 for item in found) == [1, 2, 3]
    assert not shelf.waiting


def test_items_of_loop_are_fetched_and_its_end_raised():
    ready = [True]
    shelf: ThreadOutbox[str] = ThreadOutbox(portal(), lambda: bool(ready))

    def fetch(timeout_s: float | None) -> None:
        ready.clear()
        portal().call(lambda: shelf.put(["fetched"]))

    def end(timeout_s: float | None) -> None:
        raise EOFError

    assert shelf.take(None, fetch) == "fetched"
    assert shelf.take(0.001, fetch) is None
    assert shelf.take_some(5) == []
    ready.append(True)
    with pytest.raises(EOFError):
        shelf.take(None, end)


def test_end_that_comes_while_thread_waits_wakes_it():
    over = threading.Event()
    shelf: ThreadOutbox[str] = ThreadOutbox(portal(), over.is_set)
    heard: list[type[BaseException]] = []

    def end(timeout_s: float | None) -> None:
        raise EOFError

    def wait() -> None:
        try:
            shelf.take(WAIT_S, end)
        except EOFError:
            heard.append(EOFError)

    thread = threading.Thread(target=wait)
    thread.start()
    until_waiting(shelf, 1)
    over.set()
    portal().call(shelf.wake_all)
    thread.join()
    assert heard == [EOFError]


def test_interrupted_wait_takes_nothing_and_passes_its_wake_up_on():
    shelf: ThreadOutbox[str] = ThreadOutbox(portal(), nothing_ready)
    found: list[str | None] = []
    here = threading.get_ident()
    other = threading.Thread(target=lambda: found.append(shelf.take(None, no_fetch)), daemon=True)

    def put_and_interrupt() -> None:
        """Once both wait, this thread first: it is woken for the item and interrupted in the same moment."""
        until_waiting(shelf, 1)
        other.start()
        until_waiting(shelf, 2)
        portal().call(lambda: (signal.pthread_kill(here, signal.SIGINT), shelf.put(["only one"])))

    interrupting = threading.Thread(target=put_and_interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        shelf.take(WAIT_S, no_fetch)
    interrupting.join()
    other.join(WAIT_S)
    assert found == ["only one"]
    assert not shelf.waiting


def until_waiting(shelf: ThreadOutbox[str], threads: int) -> None:
    turn = threading.Event()
    while len(shelf._waiters) < threads:
        turn.wait(0.001)


def test_one_thread_pulls_and_result_serves_all():
    shelf: PullOutbox[int] = PullOutbox(portal())
    asked: list[int] = []
    others_wait = threading.Event()

    def fetch(timeout_s: float | None) -> None:
        asked.append(1)
        assert others_wait.wait(WAIT_S)
        portal().call(lambda: shelf.put([1, 2, 3]))

    found: list[int | None] = []
    threads = [threading.Thread(target=lambda: found.append(shelf.take(WAIT_S, fetch))) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(shelf._waiters) < 2:
        others_wait.wait(0.001)
    others_wait.set()
    for thread in threads:
        thread.join()
    assert sorted(item or 0 for item in found) == [1, 2, 3]
    assert asked == [1]


def test_waiting_thread_pulls_after_error_of_first():
    shelf: PullOutbox[int] = PullOutbox(portal())
    waits = threading.Event()

    def failing(timeout_s: float | None) -> None:
        assert waits.wait(WAIT_S)
        raise EOFError

    def first() -> None:
        with pytest.raises(EOFError):
            shelf.take(WAIT_S, failing)

    found: list[int | None] = []
    asking = threading.Thread(target=first)
    asking.start()
    while shelf._nobody_asks():
        waits.wait(0.001)
    other = threading.Thread(
        target=lambda: found.append(shelf.take(WAIT_S, lambda left_s: portal().call(lambda: shelf.put([7]))))
    )
    other.start()
    while not shelf.waiting:
        waits.wait(0.001)
    waits.set()
    asking.join()
    other.join()
    assert found == [7]


def test_counted_queue_reports_taken_items_and_drops_others():
    shelf: CountedOutbox[int] = CountedOutbox(portal())
    shelf.put(range(6))
    assert shelf.take(WAIT_S, lambda left_s: None) == 0
    assert shelf.take_some(2) == [1, 2]
    shelf.drop(lambda item: item % 2 == 0)
    assert (shelf.taken(), shelf.taken()) == ([0, 1, 2], [])
    assert shelf.take_some(9) == [3, 5]
    assert (shelf.taken(), len(shelf)) == ([3, 5], 0)


def test_threads_taking_during_drop_hold_exactly_reported_items():
    shelf: CountedOutbox[int] = CountedOutbox(portal())
    shelf.put(range(3_000))
    took: list[list[int]] = [[], []]

    def take(mine: list[int]) -> None:
        while found := shelf.take_some(1):
            mine += found

    threads = [threading.Thread(target=take, args=(mine,)) for mine in took]
    for thread in threads:
        thread.start()
    told: list[int] = []
    for last in range(0, 3_000, 100):
        shelf.drop(lambda item, last=last: item > 2_900 - last)
        told += shelf.taken()
    for thread in threads:
        thread.join()
    told += shelf.taken()
    assert told == sorted(told)
    assert sorted(took[0] + took[1]) == told
