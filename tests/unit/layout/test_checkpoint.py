"""A checkpoint says all, belongs to one life, and replays the same sequence of every key, however reshaped."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import InvalidTransition, Misuse
from magnetar.base.ids import Epoch, SegmentId
from magnetar.layout.checkpoint import (
    DONE,
    START,
    Checkpoint,
    Frontier,
    Kind,
    Loss,
    SegmentPosition,
    united,
)
from magnetar.layout.layout import Layout, initial
from magnetar.layout.lineage import ancestors
from magnetar.layout.segment import Segment

EARLIEST, LATEST = Checkpoint(kind=Kind.EARLIEST), Checkpoint(kind=Kind.LATEST)
ROOT, LEFT, RIGHT = (SegmentId(id) for id in range(3))
TOPIC = "topic://t/n/x"


def split_once() -> Layout:
    return initial(1, now_ms=0).split(ROOT, now_ms=1)


def frontier(start: Checkpoint = EARLIEST, layout: Layout | None = None, **options: int) -> Frontier:
    return Frontier(start, layout or split_once(), topic=TOPIC, **options)


def test_children_are_read_after_all_of_parent_h_g3():
    reader = frontier()
    assert reader.readable() == [ROOT]
    reader.taken(ROOT, SegmentPosition(7, 0))
    assert reader.readable() == [ROOT]
    assert reader.ended(ROOT)
    assert reader.readable() == [LEFT, RIGHT]


def test_end_before_explaining_layout_is_handled_with_that_layout():
    reader = frontier(layout=initial(1, now_ms=0))
    assert not reader.ended(ROOT)
    assert reader.checkpoint().places == {ROOT: START}
    assert reader.follow(split_once()) == ()
    assert reader.checkpoint().places == {ROOT: DONE, LEFT: START, RIGHT: START}


class Counting(Layout):
    """Counts how many segments are looked up in it."""

    looked_up = 0

    def segment(self, id: SegmentId) -> Segment:
        Counting.looked_up += 1
        return super().segment(id)


def test_opening_costs_few_lookups_per_segment_of_long_history():
    """A reader that opened behind 1,000 reshapes walked the descendants of each segment."""
    layout = initial(1, now_ms=0)
    for now_ms in range(1, 201):
        layout = layout.split(layout.active[0].id, now_ms=now_ms)
        layout = layout.merge([one.id for one in layout.active], now_ms=now_ms)
    counting = Counting(layout.epoch, layout.next_segment_id, layout.segments, layout.generation)
    newest = Checkpoint(kind=Kind.PLACES, places={layout.active[0].id: START})
    Counting.looked_up = 0
    reader = frontier(newest, counting)
    assert reader.readable() == [layout.active[0].id]
    assert Counting.looked_up <= 10 * len(layout.segments)


def test_checkpoint_names_every_segment_also_those_that_wait_h_g1():
    assert frontier().checkpoint().places == {ROOT: START, LEFT: START, RIGHT: START}


def test_latest_is_end_at_open_and_sealed_are_done_h_g2():
    reader = frontier(LATEST)
    assert reader.unresolved == {LEFT, RIGHT}
    assert reader.readable() == []
    with pytest.raises(InvalidTransition):
        reader.checkpoint()
    reader.resolved(LEFT, SegmentPosition(3, 4))
    reader.resolved(RIGHT, START)
    assert reader.checkpoint().places == {ROOT: DONE, LEFT: SegmentPosition(3, 4), RIGHT: START}


def test_segment_created_after_latest_is_read_from_start_h_g2():
    reader = frontier(LATEST)
    reader.resolved(LEFT, SegmentPosition(3, 4))
    reader.resolved(RIGHT, SegmentPosition(3, 4))
    layout = split_once().split(LEFT, now_ms=2)
    reader.follow(layout)
    assert {reader.places[id] for id in (SegmentId(3), SegmentId(4))} == {START}
    assert SegmentId(3) not in reader.readable()
    reader.ended(LEFT)
    assert reader.readable() == [RIGHT, SegmentId(3), SegmentId(4)]


def test_checkpoint_of_another_life_of_topic_is_refused_h_c4():
    before = frontier(incarnation=1).checkpoint()
    with pytest.raises(Misuse, match="created again"):
        frontier(before, incarnation=2)
    assert frontier(before, incarnation=1).places == before.places
    assert frontier(before).places == before.places  # a broker that does not tell says nothing against it


def test_incarnation_from_migration_enters_later_checkpoints_h_c4():
    reader = frontier()
    reader.follow(split_once().split(LEFT, now_ms=2), 7)
    assert reader.checkpoint().incarnation == 7
    with pytest.raises(Misuse, match="created again"):
        frontier(reader.checkpoint(), reader.layout, incarnation=8)


def test_checkpoint_of_another_topic_is_refused():
    with pytest.raises(Misuse, match="another topic"):
        Frontier(frontier().checkpoint(), split_once(), topic="topic://t/n/y")


def test_checkpoint_survives_change_of_name_that_migration_asks_for():
    new, old = "topic://t/n/x", "persistent://t/n/x"
    for before, after in ((old, new), (new, old)):
        kept = Frontier(EARLIEST, split_once(), topic=before).checkpoint()
        assert Frontier(kept, split_once(), topic=after).checkpoint().topic == after
        assert united([kept, Checkpoint(kept.places, topic=after)]).places == kept.places
        assert not kept.is_of("persistent://t/n/y")


def test_layout_older_than_checkpoint_is_refused():
    later = frontier(layout=split_once().split(LEFT, now_ms=2)).checkpoint()
    with pytest.raises(Misuse, match="later layout"):
        frontier(later)


def test_pruned_segment_that_was_not_done_is_loss_h_g4():
    reader = frontier()
    reader.taken(ROOT, SegmentPosition(7, 3))
    kept = reader.checkpoint()
    pruned = split_once().removed(ROOT)
    assert reader.follow(pruned) == (Loss(ROOT, SegmentPosition(7, 3)),)
    again = frontier(kept, pruned)
    assert again.losses == (Loss(ROOT, SegmentPosition(7, 3)),)
    assert again.readable() == [LEFT, RIGHT]


def test_pruned_segment_that_was_done_is_no_loss():
    reader = frontier()
    reader.ended(ROOT)
    kept = reader.checkpoint()
    pruned = split_once().removed(ROOT)
    assert reader.follow(pruned) == ()
    assert frontier(kept, pruned).losses == ()


def test_topic_that_is_not_there_any_more_is_loss_once():
    reader = frontier()
    assert reader.gone(ROOT) == Loss(ROOT, START)
    assert reader.gone(ROOT) is None
    assert reader.readable() == [LEFT, RIGHT]


def test_messages_deleted_behind_last_read_are_loss_h_g4():
    reader = frontier()
    reader.taken(ROOT, SegmentPosition(7, 3))
    assert reader.trimmed(ROOT, SegmentPosition(7, 3), SegmentPosition(7, 3)) is None
    assert reader.trimmed(ROOT, SegmentPosition(7, 3), SegmentPosition(5, 9)) is None
    assert reader.trimmed(ROOT, SegmentPosition(7, 3, 1, 4), SegmentPosition(7, 3)) == Loss(
        ROOT, SegmentPosition(7, 3, 1, 4)
    )
    assert reader.trimmed(ROOT, SegmentPosition(7, 3), SegmentPosition(7, 4)) == Loss(ROOT, SegmentPosition(7, 3))
    assert reader.places[ROOT] == SegmentPosition(7, 4)


def test_deleted_start_of_surrounding_message_is_reported_once_h_g13():
    reader = frontier()
    between = SegmentPosition(7, 3, around=(7, 1))
    reader.taken(ROOT, between)
    assert reader.checkpoint().places[ROOT].around == (7, 1)
    assert reader.trimmed(ROOT, between, SegmentPosition(7, 0)) is None
    assert reader.trimmed(ROOT, between, SegmentPosition(7, 1)) == Loss(ROOT, between)
    assert reader.places[ROOT].around is None
    assert reader.trimmed(ROOT, reader.places[ROOT], SegmentPosition(7, 1)) is None
    reader.taken(ROOT, SegmentPosition(7, 9))
    assert reader.places[ROOT].around is None


def test_reader_from_earliest_loses_nothing_deleted_before():
    reader = frontier()
    assert reader.trimmed(ROOT, START, SegmentPosition(7, 4)) is None
    assert reader.places[ROOT] == SegmentPosition(7, 4)
    later = frontier(reader.checkpoint(), split_once().split(LEFT, now_ms=2))
    assert later.trimmed(SegmentId(3), START, SegmentPosition(8, 0)) == Loss(SegmentId(3), START)


def test_checkpoint_of_another_client_that_names_only_what_was_read():
    layout = split_once().split(LEFT, now_ms=2)
    reader = frontier(Checkpoint({LEFT: SegmentPosition(5, 1)}), layout)
    assert reader.places[ROOT] == DONE  # its child was read
    assert reader.places[RIGHT] == START
    assert reader.places[SegmentId(3)] == START
    assert reader.readable() == [LEFT, RIGHT]


def test_latest_in_foreign_checkpoint_is_end_at_open():
    reader = frontier(Checkpoint({ROOT: DONE, LEFT: DONE, RIGHT: SegmentPosition(5, 1)}))
    assert reader.unresolved == {LEFT}


def test_whole_entry_orders_after_its_messages():
    ordered = [
        START,
        SegmentPosition(0, 0, 0),
        SegmentPosition(0, 0, 3),
        SegmentPosition(0, 0),
        SegmentPosition(0, 1, 0),
        SegmentPosition(2, 0),
        DONE,
    ]
    assert sorted(set(ordered)) == ordered
    assert [str(place) for place in ordered[1:4]] == ["0:0:0", "0:0:3", "0:0"]
    assert str(DONE) == "DONE"


def test_positions_of_group_unite_to_furthest_per_segment():
    whole = Checkpoint({ROOT: DONE, LEFT: SegmentPosition(1, 1), RIGHT: START}, Epoch(3), TOPIC, 9)
    mine = Checkpoint({LEFT: SegmentPosition(1, 5)}, Epoch(4), TOPIC, 9)
    both = united([whole, mine])
    assert both == Checkpoint({ROOT: DONE, LEFT: SegmentPosition(1, 5), RIGHT: START}, Epoch(4), TOPIC, 9)
    assert united([both, whole]) == both


def test_parts_of_different_lives_or_without_places_are_not_united():
    with pytest.raises(Misuse):
        united([Checkpoint({}, incarnation=1), Checkpoint({}, incarnation=2)])
    with pytest.raises(Misuse):
        united([EARLIEST])


# Any topic, any reader, any moment

KEYS = 8


class World:
    """Messages of a topic by segment: a key and its number."""

    def __init__(self) -> None:
        self.layout = initial(2, now_ms=0)
        self.kept: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.sent: dict[int, int] = defaultdict(int)

    def send(self, key: int) -> None:
        segment = self.layout.route(key * (65536 // KEYS) + 11)
        self.kept[segment.id].append((key, self.sent[key]))
        self.sent[key] += 1

    def reshape(self, which: int) -> None:
        active = self.layout.active
        if which % 2 and len(active) > 1:
            lower = which % (len(active) - 1)
            self.layout = self.layout.merge([one.id for one in active[lower : lower + 2]], now_ms=0)
        elif len(self.layout) < 40:
            self.layout = self.layout.split(active[which % len(active)].id, now_ms=0)


class Reader:
    def __init__(self, world: World, start: Checkpoint) -> None:
        self.world = world
        self.frontier = Frontier(start, world.layout, topic=TOPIC, incarnation=1)
        self.got: list[tuple[int, int]] = []

    def read(self, which: int) -> bool:
        """One message, or one end, of one of the segments that may be read. Is there more?"""
        ready = self.frontier.readable()
        for segment in ready[which % len(ready) :] + ready[: which % len(ready)] if ready else []:
            at = max(self.frontier.places[segment].entry, -1) + 1
            kept = self.world.kept[segment]
            if at < len(kept):
                self.got.append(kept[at])
                self.frontier.taken(segment, SegmentPosition(segment, at))
                return True
            if not self.world.layout.segment(segment).is_active:
                if not self.frontier.ended(segment):
                    self.frontier.follow(self.world.layout)
                return True
        return False

    def drain(self, which: int) -> dict[int, list[int]]:
        self.frontier.follow(self.world.layout)
        while self.read(which):
            which += 7
        assert self.frontier.readable() == sorted(one.id for one in self.world.layout.active)
        return by_key(self.got)


def by_key(got: list[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for key, number in got:
        found[key].append(number)
    return found


STEPS = st.lists(st.tuples(st.sampled_from("sssssrrrrcxf"), st.integers(0, 60)), max_size=120)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(0, 60))
def test_checkpoint_at_any_moment_replays_keys_after_any_reshape(steps, which):
    world = World()
    reader = Reader(world, EARLIEST)
    taken: list[tuple[int, Checkpoint]] = []
    for what, number in steps:
        match what:
            case "s":
                world.send(number % KEYS)
            case "r":
                reader.read(number)
            case "c":
                made = reader.frontier.checkpoint()
                taken.append((len(reader.got), made))
                for id, place in made.places.items():  # closed under ancestors
                    before = {made.places[one] for one in ancestors(reader.frontier.layout, id)}
                    assert place == START or before <= {DONE}
            case "x":
                world.reshape(number)
            case "f":
                reader.frontier.follow(world.layout)
    everything = {key: list(range(count)) for key, count in world.sent.items()}
    assert reader.drain(which) == everything
    for count, made in taken:
        done = by_key(reader.got[:count])
        again = Reader(world, made).drain(which + 1)
        assert {key: done[key] + again[key] for key in everything} == everything
