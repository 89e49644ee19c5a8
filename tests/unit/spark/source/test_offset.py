"""The offset in users' checkpoints: one form for one place, and clear words for everything else."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from magnetar.base.errors import Corrupt, Misuse
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import SPARK_OFFSET_BYTES_MAX
from magnetar.layout.readable_range import DONE, NUMBER_MAX, START, ReadPosition
from magnetar.spark.source.offset import SourceOffset, from_document, parse, position

numbers = st.integers(0, NUMBER_MAX - 1)
positions = st.one_of(st.sampled_from([START, DONE]), st.builds(ReadPosition, numbers, numbers, numbers))
places = st.dictionaries(numbers, positions, max_size=6)
frontiers = st.builds(
    SourceOffset,
    numbers,
    places,
    st.none() | places,
    st.dictionaries(numbers, st.tuples(positions, positions).filter(lambda pair: pair[0] < pair[1]), max_size=3),
    st.booleans(),
    numbers,
    st.text(max_size=20),
)
GOOD = SourceOffset(
    5, {12: ReadPosition(7, 41), 3: ReadPosition(9, 0, 2), 9: DONE, 20: START}, life=2, topic="topic://a/b/c"
)


@given(frontiers)
def test_what_is_written_is_read_back_and_written_same(frontier):
    again = parse(frontier.text)
    assert again == frontier
    assert again.text == frontier.text


@given(frontiers)
def test_spark_text_of_document_keeps_offset_equal(frontier):
    carried = json.loads(json.dumps(frontier.document()))
    assert from_document(carried) == frontier
    assert json.dumps(frontier.document()) == json.dumps(from_document(carried).document())


@given(st.dictionaries(numbers, positions, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_offset_has_one_text_in_any_construction_order(held, chance):
    shuffled = list(held.items())
    chance.shuffle(shuffled)
    assert SourceOffset(1, dict(shuffled)).text == SourceOffset(1, held).text


def test_form_that_lies_in_checkpoints():
    assert (
        GOOD.text == '{"epoch":5,"life":2,"seg":{"12":"7:41","20":"-1:-1","3":"9:0:2","9":"DONE"},'
        '"topic":"topic://a/b/c","v":1}'
    )
    first = SourceOffset(5, {1: ReadPosition(7, 41)}, {1: START}, {1: (START, ReadPosition(7, 2))})
    assert first.text == '{"epoch":5,"from":{"1":"-1:-1"},"gap":{"1":["-1:-1","7:2"]},"seg":{"1":"7:41"},"v":1}'
    assert SourceOffset(0, {}, initial=True).text == '{"epoch":0,"init":true,"seg":{},"v":1}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "7",
        '{"epoch":1,"seg":{}}',
        '{"epoch":1,"seg":{},"v":0}',
        '{"epoch":1,"seg":{},"v":true}',
        '{"epoch":1,"seg":{},"v":1.0}',
        '{"epoch":1,"seg":{},"v":"1"}',
        '{"epoch":1,"seg":{},"v":1,"more":1}',
        '{"epoch":1,"seg":{},"v":1,"v":1}',
        '{"epoch":-1,"seg":{},"v":1}',
        '{"epoch":true,"seg":{},"v":1}',
        '{"epoch":1,"v":1}',
        '{"epoch":1,"seg":[],"v":1}',
        '{"epoch":1,"seg":{"1":7},"v":1}',
        '{"epoch":1,"seg":{"1":"7"},"v":1}',
        '{"epoch":1,"seg":{"1":"7:1:0"},"v":1}',
        '{"epoch":1,"seg":{"1":"07:1"},"v":1}',
        '{"epoch":1,"seg":{"1":"7:-1"},"v":1}',
        '{"epoch":1,"seg":{"1":"7:1 "},"v":1}',
        '{"epoch":1,"seg":{"1":"done"},"v":1}',
        '{"epoch":1,"seg":{"1":"9223372036854775807:1"},"v":1}',
        '{"epoch":1,"seg":{"01":"7:1"},"v":1}',
        '{"epoch":1,"seg":{"-1":"7:1"},"v":1}',
        '{"epoch":1,"seg":{"9999999999999999999":"7:1"},"v":1}',
        '{"epoch":1,"seg":{"1":"7:1","1":"7:2"},"v":1}',
        '{"epoch":1,"seg":{"٣":"7:1"},"v":1}',
        '{"epoch":1,"seg":{},"init":false,"v":1}',
        '{"epoch":1,"seg":{},"life":0,"v":1}',
        '{"epoch":1,"seg":{},"topic":"","v":1}',
        '{"epoch":1,"seg":{},"topic":7,"v":1}',
        '{"epoch":1,"seg":{},"from":null,"v":1}',
        '{"epoch":1,"seg":{},"gap":{},"v":1}',
        '{"epoch":1,"seg":{},"gap":{"1":["7:1"]},"v":1}',
        '{"epoch":1,"seg":{},"gap":{"1":["7:1","7:1"]},"v":1}',
        "[" * 100_000,
        '{"v":1,"seg":{"1":"' + "7" * SPARK_OFFSET_BYTES_MAX + '"}}',
    ],
)
def test_garbage_is_refused_and_never_guessed_at(text):
    with pytest.raises(Corrupt):
        parse(text)


def test_offset_of_newer_version_says_what_to_do():
    with pytest.raises(Misuse, match=r"newer version.*install"):
        parse('{"anything":[],"v":2}')


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=8),
        lambda inner: st.dictionaries(st.sampled_from(["v", "seg", "from", "gap", "epoch", "1"]), inner, max_size=4),
        max_leaves=8,
    )
)
@example({"v": 1, "epoch": 1, "seg": {None: "7:1"}})
@settings(max_examples=50)
def test_any_document_is_read_or_refused(said):
    try:
        from_document(said)
    except (Corrupt, Misuse):
        pass


def test_offset_of_another_topic_or_another_life_is_refused():
    GOOD.belongs(topic="topic://a/b/c", life=2)
    GOOD.belongs(topic="topic://a/b/c", life=0)  # a server that does not tell
    with pytest.raises(Misuse, match="another topic"):
        GOOD.belongs(topic="topic://a/b/d", life=2)
    with pytest.raises(Misuse, match="deleted and recreated"):
        GOOD.belongs(topic="topic://a/b/c", life=3)


@pytest.mark.parametrize(
    ("epoch", "held", "grows"),
    [
        (5, GOOD.places, True),
        (6, {12: DONE, 9: DONE}, True),
        (6, {12: ReadPosition(7, 41, 1)}, True),
        (4, GOOD.places, False),
        (6, {12: ReadPosition(7, 40, 900)}, False),
        (6, {9: ReadPosition(7, 40)}, False),
    ],
)
def test_batch_that_would_go_backwards_is_seen(epoch, held, grows):
    assert GOOD.grows_to(SourceOffset(epoch, held, life=2, topic="topic://a/b/c")) is grows


def test_positions_are_ordered_from_start_to_done():
    told = ["-1:-1", "0:0", "0:0:1", "0:1", "7:0", "10:3", "DONE"]
    assert sorted(told, key=position) == told
    assert [str(position(text)) for text in told] == told


def test_cuts_are_written_and_read_back_and_must_grow():
    one = SourceOffset(
        Epoch(1), {SegmentId(0): ReadPosition(9, 0)}, cuts={SegmentId(0): (ReadPosition(1, 2), ReadPosition(3, 4, 5))}
    )
    assert '"cut":{"0":["1:2","3:4:5"]}' in one.text
    assert parse(one.text) == one
    for wrong in ('{"0":[]}', '{"0":["3:1","3:1"]}', "{}", "[]", '{"0":"1:2"}'):
        with pytest.raises(Corrupt):
            parse(f'{{"cut":{wrong},"epoch":1,"seg":{{}},"v":1}}')
