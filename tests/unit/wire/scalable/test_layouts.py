"""Layouts and shares as commands: the recorded exchanges of a real Pulsar, our own fields, what is read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import Corrupt
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.names import topic_name
from magnetar.layout.layout import Layout, initial
from magnetar.layout.routing import Routing
from magnetar.layout.segment import Segment
from magnetar.wire import frames
from magnetar.wire.proto import pb
from magnetar.wire.scalable import layouts
from magnetar.wire.scalable.layouts import Address, ConsumerAssignment, LayoutUpdate
from tests.support.recorded_traces import as_fields, trace

HERE = Address("pulsar://localhost:6650")
_T = pb.BaseCommand


def decoded(data: bytes) -> pb.BaseCommand:
    [(start, end, stop)], consumed = frames.split(data, 0, 1 << 20)
    assert (stop, consumed) == (len(data), len(data))
    said = frames.decode_command(data, start, end)
    assert said is not None
    return said


def update(
    topic: str, shown: LayoutUpdate, session_id: int = 1, *, extended: bool = False
) -> pb.CommandScalableTopicUpdate:
    said = decoded(layouts.update(session_id, layouts.update_body(topic_name(topic), shown, extended=extended)))
    assert said.type == _T.SCALABLE_TOPIC_UPDATE
    return said.scalableTopicUpdate


def shown(layout: Layout, controller: Address | None = HERE) -> LayoutUpdate:
    return LayoutUpdate(layout, {one.id: HERE for one in layout.active}, controller)


def test_watch_of_recorded_reshapes_equals_real_broker():
    one = initial(1, now_ms=5)
    two = one.split(SegmentId(0), now_ms=6)
    three = two.merge([SegmentId(1), SegmentId(2)], now_ms=7)
    told = [said.fields for said in trace("producer-split") if said.command == "SCALABLE_TOPIC_UPDATE"]
    ours = [shown(one, None), shown(one), shown(two), shown(three)]
    said = [as_fields(update(told[0]["resolved_topic_name"], each)) for each in ours]
    for segment in said[3]["dag"]["segments"]:
        segment.pop("entry_bucket_splits", None)  # newer than the recording: a merge adds the buckets of its parents
    assert said == told


def test_shares_of_recorded_stream_consumers_say_what_real_broker_said():
    said = trace("streams-join-leave")
    topic = topic_name(next(each.fields["topic"] for each in said if each.command == "SCALABLE_TOPIC_SUBSCRIBE"))
    layout = initial(2, now_ms=1)
    ours = {len(ids): [layout.segment(SegmentId(id)) for id in ids] for ids in ([0, 1], [1])}
    answers = [each.fields for each in said if each.command == "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE"]
    for recorded in answers:
        segments = tuple(ours[len(recorded["assignment"]["segments"])])
        made = layouts.share(topic, ConsumerAssignment(layout.epoch, segments, generation=7), extended=False)
        answer = decoded(layouts.subscribed(3, made)).scalableTopicSubscribeResponse
        assert as_fields(answer) == {**recorded, "request_id": 3}
        pushed = decoded(layouts.assigned(0, made)).scalableTopicAssignmentUpdate
        assert as_fields(pushed) == {"consumer_id": 0, "assignment": recorded["assignment"]}


def test_missing_topic_is_told_as_real_broker_told_it():
    [recorded] = [said.fields for said in trace("missing") if said.command == "SCALABLE_TOPIC_UPDATE"]
    said = decoded(layouts.update_failed(1, pb.TopicNotFound, recorded["message"])).scalableTopicUpdate
    assert as_fields(said) == recorded


def test_session_numbers_use_all_64_bits():
    said = update("topic://t/n/x", shown(initial(1, now_ms=1)), 2**64 - 1)
    assert said.session_id == 2**64 - 1


def test_our_own_fields_go_only_to_those_who_announced_them():
    layout = initial(1, now_ms=1)
    told = LayoutUpdate(layout, {}, None, Routing.LOW16, term=4, incarnation=9)
    extended = update("topic://t/n/x", told, extended=True).dag
    assert (extended.routing, extended.term, extended.incarnation) == ("low16", 4, 9)
    assert layouts.read_routing(extended) is Routing.LOW16
    plain = update("topic://t/n/x", told).dag
    assert not any(plain.HasField(name) for name in ("routing", "term", "incarnation"))
    assert layouts.read_routing(plain) is None
    share = ConsumerAssignment(Epoch(3), layout.segments, generation=8, term=4)
    assert layouts.share(topic_name("topic://t/n/x"), share, extended=True).generation == 8
    assert not layouts.share(topic_name("topic://t/n/x"), share, extended=False).HasField("generation")


def test_addresses_for_tls_are_told_where_there_are_some():
    layout = initial(1, now_ms=1)
    secure = Address("pulsar://a:1", "pulsar+ssl://a:2")
    dag = update("topic://t/n/x", LayoutUpdate(layout, {SegmentId(0): secure}, secure)).dag
    assert dag.controller_broker_url_tls == dag.segment_brokers[0].broker_url_tls == "pulsar+ssl://a:2"


def test_listener_gets_its_addresses_alone():
    layout = initial(2, now_ms=1)
    both = Address("pulsar://in:1", listeners={"outside": Address("pulsar://out:1", "pulsar+ssl://out:2")})
    told = LayoutUpdate(layout, {SegmentId(0): both, SegmentId(1): HERE}, both)

    def dag(listener: str) -> pb.ScalableTopicDAG:
        body = layouts.update_body(topic_name("topic://t/n/x"), told, extended=True, listener=listener)
        return decoded(layouts.update(1, body)).scalableTopicUpdate.dag

    assert dag("").controller_broker_url == dag("").segment_brokers[0].broker_url == "pulsar://in:1"
    outside = dag("outside")
    assert (outside.controller_broker_url, outside.controller_broker_url_tls) == (
        "pulsar://out:1",
        "pulsar+ssl://out:2",
    )
    assert [(one.segment_id, one.broker_url) for one in outside.segment_brokers] == [(0, "pulsar://out:1")]
    assert not dag("unknown").HasField("controller_broker_url")


def test_what_was_told_is_read_back_whole():
    layout = initial(2, now_ms=1).split(SegmentId(0), now_ms=2).merge([SegmentId(2), SegmentId(3)], now_ms=3)
    told = layouts.read_layout(update("topic://t/n/x", shown(layout)).dag)
    segments = tuple(replace(segment, merge_depth=0) for segment in layout.segments)  # only a controller needs it
    assert told == replace(layout, generation=None, segments=segments), "its epoch is all that a client hears"
    legacy = Layout(Epoch(0), SegmentId(1), (Segment(SegmentId(0), initial(1, now_ms=0).active[0].range),))
    assert layouts.read_layout(update("topic://t/n/x", shown(legacy)).dag) == legacy


def test_layout_that_contradicts_itself_is_refused():
    dag = update("topic://t/n/x", shown(initial(2, now_ms=1))).dag
    del dag.segments[1]
    with pytest.raises(Corrupt):
        layouts.read_layout(dag)
    dag.segments[0].hash_end = 70_000
    with pytest.raises(Corrupt):
        layouts.read_layout(dag)


def test_unknown_error_code_is_reported_as_unknown():
    assert decoded(layouts.subscribe_failed(1, 9999, "x")).scalableTopicSubscribeResponse.error == pb.UnknownError
