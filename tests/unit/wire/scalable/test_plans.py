"""PLAN and HOLD on the wire: what goes in comes out, and what contradicts itself is refused."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Corrupt
from magnetar.base.ids import SegmentId
from magnetar.layout.readable_range import DONE, START, CutColumns, CutPoint, ReadableRange, ReadPosition
from magnetar.wire import frames
from magnetar.wire.proto import pb
from magnetar.wire.scalable import plans
from magnetar.wire.scalable.plan_ranges import EncodedRange, encode_range, write

PLACES = {
    SegmentId(0): DONE,
    SegmentId(1): START,
    SegmentId(7): ReadPosition(3, 4, 5),
    SegmentId(8): ReadPosition(0, 0),
}


def decoded(data: bytes) -> pb.BaseCommand:
    found = frames.decode_command(data, 8, len(data))
    assert found is not None
    return found


def all_told(stretches: dict[SegmentId, ReadableRange]) -> dict[SegmentId, EncodedRange]:
    return {id: encode_range(one) for id, one in stretches.items()}


def test_places_come_back_as_they_went() -> None:
    for places in (PLACES, {SegmentId(0): DONE, SegmentId(2): ReadPosition(2**40, 9)}, {}):
        assert plans.read_places(pb.SegmentPlaces.FromString(plans.columns(places).SerializeToString())) == places


def test_what_lies_around_places_comes_back_as_it_went() -> None:
    around = {SegmentId(7): (3, 1)}
    said = pb.SegmentPlaces.FromString(plans.columns(PLACES, around).SerializeToString())
    assert (plans.read_places(said), plans.read_around(said)) == (PLACES, around)
    assert plans.read_around(plans.columns(PLACES)) == {}
    del said.around_entry_id[-1]
    with pytest.raises(Corrupt):
        plans.read_around(said)


@pytest.mark.parametrize(
    "said",
    [
        {"segment_id": [1], "ledger_id": [1], "entry_id": []},
        {"segment_id": [1, 2], "ledger_id": [1, 1], "entry_id": [1, 1], "row": [1]},
        {"segment_id": [1, 1], "ledger_id": [1, 1], "entry_id": [1, 1]},
        {"segment_id": [1], "ledger_id": [-1], "entry_id": [4]},
        {"segment_id": [1], "ledger_id": [4], "entry_id": [-1]},
        {"segment_id": [1], "ledger_id": [4], "entry_id": [1], "row": [2**63]},
    ],
)
def test_places_that_do_not_agree_are_refused(said: dict[str, list[int]]) -> None:
    with pytest.raises(Corrupt):
        plans.read_places(pb.SegmentPlaces(**said))


def test_plan_comes_back_as_it_went() -> None:
    marks = (
        CutPoint(ReadPosition(1, 5), 5, 50, 99),
        CutPoint(ReadPosition(1, 9), 9, 90, 0),
        CutPoint(ReadPosition(2, 1), 10, 100, 0),
    )
    stretches = {
        SegmentId(0): ReadableRange(
            ReadPosition(1, 0, 3), CutColumns.of(marks), True, True, ReadPosition(2, 7), 70, 700
        ),
        SegmentId(1): ReadableRange(START),
        SegmentId(2): ReadableRange(ReadPosition(4, 4)),
        SegmentId(3): ReadableRange(
            ReadPosition(1, 0), CutColumns.of(marks)._replace(times=[7]), end=ReadPosition(2, 1)
        ),
    }
    dag = pb.ScalableTopicDAG(epoch=4)
    said = decoded(plans.planned(3, 17, 4, all_told(stretches), dag)).planResponse
    assert (said.request_id, said.incarnation, said.epoch, said.dag.epoch) == (3, 17, 4, 4)
    assert plans.read_stretches(said.stretches) == stretches
    assert not decoded(plans.planned(3, 17, 4, all_told(stretches), None)).planResponse.HasField("dag")


def test_plan_is_byte_for_byte_what_protobuf_writes() -> None:
    marks = CutColumns([1], [300], [300], [1 << 40], [99])
    stretches = {
        SegmentId(id): ReadableRange(ReadPosition(1, 0), marks, end=ReadPosition(1, 300)) for id in (0, 1, 300, 1 << 20)
    }
    dag = pb.ScalableTopicDAG(epoch=4)
    made = pb.CommandPlanResponse(request_id=3, incarnation=17, epoch=4, dag=dag)
    for id, one in stretches.items():
        made.stretches.append(pb.PlanStretch.FromString(b"\x08\x00" + write(one)))
        made.stretches[-1].segment_id = id
    whole = frames.encode_command(pb.BaseCommand(type=pb.BaseCommand.PLAN_RESPONSE, planResponse=made))
    assert plans.planned(3, 17, 4, all_told(stretches), dag) == whole


def test_marks_that_do_not_agree_are_refused() -> None:
    said = pb.PlanStretch(segment_id=1, ledger_id=[1, 1], entry_id=[1, 2], messages=[1], bytes=[1, 2])
    with pytest.raises(Corrupt):
        plans.read_stretches([said])
    with pytest.raises(Corrupt):
        plans.read_stretches(
            [pb.PlanStretch(segment_id=1, ledger_id=[1, 1], entry_id=[2, 1], messages=[1, 2], bytes=[1, 2])]
        )


def test_hold_is_told_with_all_that_became_of_it() -> None:
    frame = plans.held(
        5, PLACES, incarnation=7, until_ms=99, moved=True, expired=True, lost=[SegmentId(1), SegmentId(8)]
    )
    said = decoded(frame).holdResponse
    assert plans.read_places(said.places) == PLACES
    assert (said.request_id, said.incarnation, said.until_ms, said.moved, said.expired) == (5, 7, 99, True, True)
    assert list(said.lost_segment_id) == [1, 8]
    assert decoded(plans.released(6)).holdResponse.request_id == 6


def test_refusal_says_its_code_and_unknown_code_is_no_other() -> None:
    assert decoded(plans.plan_failed(1, 11, "no")).planResponse.error == pb.TopicNotFound
    assert decoded(plans.hold_failed(1, 12345, "no")).holdResponse.error == pb.UnknownError
