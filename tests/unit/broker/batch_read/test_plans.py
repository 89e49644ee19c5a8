"""PLAN over several brokers: every segment measured by its owner, a bounded number of calls, no more than is needed."""

from __future__ import annotations

import msgspec
import pytest

from magnetar.base.errors import ConnectionLost, TopicNotFound
from magnetar.base.ids import SegmentId, Term
from magnetar.base.names import topic_name
from magnetar.broker.peers.rpc import PeerRequest
from magnetar.cluster.calls.topic_calls import Answer, Measure, MeasuredAll, Request
from magnetar.layout.readable_range import DONE, START, CutColumns, CutPoint, ReadableRange, ReadPosition
from magnetar.scalable.machines.read_plan import MeasureRequest
from magnetar.topic.measure import FROM_EARLIEST, FROM_LATEST, RangeRequest
from tests.unit.scalable.world import KEYS, NAME, Cluster, Member, Writer

A, B, C = (SegmentId(id) for id in range(3))


async def written(cluster: Cluster, messages: int = 40) -> None:
    writer = Writer(cluster)
    for number in range(messages):
        await writer.send(KEYS[number % len(KEYS)])
    writer.close()


def plans(member: Member):  # type: ignore[no-untyped-def]
    return member.node.handlers.plans


@pytest.mark.setup(brokers=3)
async def test_segments_of_other_brokers_are_measured_in_one_call_each(cluster: Cluster) -> None:
    first = cluster.members[0]
    await first.service.create(NAME, segments=8)
    await written(cluster)
    asked: list[Measure] = []
    carry = first.carrier.carry

    async def noted(name: object, request: Request) -> Answer:
        if isinstance(request, Measure):
            asked.append(request)
        return await carry(name, request)  # type: ignore[arg-type]

    first.carrier.carry = noted  # type: ignore[method-assign, assignment]
    owners = {
        (await cluster.owner(one.topic(NAME))).node.ownership.me.id for one in (await cluster.record()).layout.segments
    }
    for member in cluster.members:
        found = await plans(member).plan(NAME, MeasureRequest())
        assert sum(one.messages for one in found.stretches.values()) == 40
        assert len(found.stretches) == 8
    assert len(asked) == len(owners - {first.node.ownership.me.id})
    assert len(owners) == 3


@pytest.mark.setup(brokers=2)
async def test_range_count_is_equal_before_and_after_seal_and_takeover(
    cluster: Cluster,
) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await written(cluster)
    before = (await plans(one).plan(NAME, MeasureRequest())).stretches[A]
    middle = before.marks[len(before.marks) // 2]
    await one.service.split(NAME, 0)
    await written(cluster, 12)
    dying = await cluster.owner((await cluster.record()).layout.segment(A).topic(NAME))
    dying.kill()
    left = cluster.living[0]
    for segment in (await cluster.record()).layout.segments:
        await cluster.owner(segment.topic(NAME))
    found = await plans(left).plan(NAME, MeasureRequest({A: middle.place}))
    rest = found.stretches[A]
    assert (rest.messages, rest.end, rest.sealed) == (before.messages - middle.messages, before.end, True)
    assert sum(found.stretches[id].messages for id in (B, C)) == 12


async def test_no_further_segments_are_looked_at_when_there_is_enough(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await written(cluster)
    await one.service.split(NAME, 0)
    few = await plans(one).plan(NAME, MeasureRequest({A: START}, messages_max=10))
    assert list(few.stretches) == [A]
    assert not few.stretches[A].sealed
    assert few.stretches[A].marks[-1].messages >= 10
    every = await plans(one).plan(NAME, MeasureRequest({A: START}, messages_max=41))
    assert sorted(every.stretches) == [0, 1, 2]
    behind = await plans(one).plan(NAME, MeasureRequest({A: DONE}))
    assert sorted(behind.stretches) == [1, 2]


async def test_unloaded_segment_is_measured_and_deleted_one_is_loss(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await written(cluster)
    await one.service.split(NAME, 0)
    segment = (await cluster.record()).layout.segment(A)
    whole = (await plans(one).plan(NAME, MeasureRequest())).stretches[A]
    await one.node.topics.unload(segment.topic(NAME))
    assert (await plans(one).plan(NAME, MeasureRequest())).stretches[A] == whole
    await one.node.topics.delete(segment.topic(NAME), force=True)
    gone = (await plans(one).plan(NAME, MeasureRequest())).stretches[A]
    assert (gone.start, gone.lost, gone.sealed, gone.marks) == (whole.end, True, True, ())
    assert not (await plans(one).plan(NAME, MeasureRequest(start=FROM_EARLIEST))).stretches[A].lost


async def test_latest_of_reshaped_topic_is_behind_all_of_it(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await written(cluster)
    await one.service.split(NAME, 0)
    found = await plans(one).plan(NAME, MeasureRequest(start=FROM_LATEST))
    assert found.stretches[A].sealed
    assert found.stretches[A].start != START
    assert [found.stretches[id].start for id in (B, C)] == [START, START]
    assert sum(stretch.messages for stretch in found.stretches.values()) == 0
    assert found.record.layout.epoch == (await cluster.record()).layout.epoch


async def test_segment_sealed_after_layout_is_not_reported_sealed(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await written(cluster, 3)
    topic = await one.segment((await cluster.record()).layout.segment(A).topic(NAME))
    await topic.seal("a split that is not committed", Term(9))
    found = (await plans(one).plan(NAME, MeasureRequest())).stretches[A]
    assert (found.messages, found.sealed) == (3, False)


def test_questions_and_answers_survive_way_between_brokers() -> None:
    questions = (
        RangeRequest(ReadPosition(1, 2, 3), DONE, 4, 5, 6, True, True),
        RangeRequest(FROM_LATEST),
        RangeRequest(12345),
    )
    call = PeerRequest("x", Measure(op="plan", topics=("a", "b", "c"), asked=questions))
    assert msgspec.json.decode(msgspec.json.encode(call), type=PeerRequest) == call
    marks = CutColumns.of([CutPoint(ReadPosition(1, 3), 4, 5, 6)])
    answer = MeasuredAll((None, ReadableRange(ReadPosition(1, 2), marks, True, True, ReadPosition(1, 9), 7, 8)))
    back: Answer = msgspec.json.decode(msgspec.json.encode(answer), type=Answer)
    assert isinstance(back, MeasuredAll)
    assert back == answer
    assert isinstance(back.stretches[1], ReadableRange)
    assert back.stretches[1].marks == answer.stretches[1].marks  # type: ignore[union-attr]


@pytest.mark.setup(brokers=2)
async def test_owner_that_does_not_answer_is_callers_to_repeat(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME, segments=8)
    await written(cluster)
    one.carrier.losing = 0
    with pytest.raises(ConnectionLost):
        await plans(one).plan(NAME, MeasureRequest())
    one.carrier.losing = None
    assert len((await plans(one).plan(NAME, MeasureRequest())).stretches) == 8


async def test_topic_that_is_not_there_is_not_found(cluster: Cluster) -> None:
    with pytest.raises(TopicNotFound):
        await plans(cluster.members[0]).plan(topic_name("topic://public/default/none"), MeasureRequest())
