"""The bytes of ZooKeeper's protocol, as a real server of version 3.9.5 took and sent them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Corrupt
from magnetar.metadata.zookeeper import jute, messages
from magnetar.metadata.zookeeper.messages import CreateMode, ErrorCode, NodeEvent, NodeEventType, NodeStat, Operation

STAT = NodeStat(2, 2, 1795052181191, 1795052181191, 0, 0, 0)
STAT_BYTES = (
    "00000000000000020000000000000002000001a1f17296c7000001a1f17296c7"
    "000000000000000000000000000000000000000000000000000000000000000000000002"
)


def reader(text: str) -> jute.Reader:
    return jute.Reader(bytes.fromhex(text))


REQUESTS = {
    "connect": (
        messages.connect(last_zxid=0, timeout_ms=4000, session=0, password=b""),
        "0000002d00000000000000000000000000000fa00000000000000000000000100000000000000000000000000000000000",
    ),
    "authenticate": (
        messages.request(messages.AUTH_XID, Operation.AUTH, messages.authenticate("digest", b"u:p")),
        "0000001dfffffffc00000064000000000000000664696765737400000003753a70",
    ),
    "watch": (
        messages.request(1, Operation.ADD_WATCH, messages.add_watch("/t")),
        "00000012000000010000006a000000022f7400000001",
    ),
    "create a parent": (
        messages.request(2, Operation.CREATE, messages.create("/t", None, CreateMode.PERSISTENT, messages.OPEN_ACL)),
        "00000031000000020000000f000000022f74ffffffff000000010000001f00000005776f726c6400000006616e796f6e6500000000",
    ),
    "create in a sequence": (
        messages.request(
            3,
            Operation.CREATE,
            messages.create("/t/e-", b"v", CreateMode.EPHEMERAL_SEQUENTIAL, messages.CREATOR_ACL),
        ),
        "0000002e000000030000000f000000052f742f652d0000000176000000010000001f00000004617574680000000000000003",
    ),
    "get": (messages.request(4, Operation.GET, messages.read("/t")), "0000000f0000000400000004000000022f7400"),
    "children": (
        messages.request(5, Operation.CHILDREN, messages.read("/t")),
        "0000000f0000000500000008000000022f7400",
    ),
    "set": (
        messages.request(6, Operation.SET, messages.write("/t", b"", 0)),
        "000000160000000600000005000000022f740000000000000000",
    ),
    "sync": (messages.request(8, Operation.SYNC, messages.sync("/t")), "0000000e0000000800000009000000022f74"),
    "delete": (
        messages.request(9, Operation.DELETE, messages.delete("/t", 5)),
        "000000120000000900000002000000022f7400000005",
    ),
    "ping": (messages.request(messages.PING_XID, Operation.PING), "00000008fffffffe0000000b"),
    "close": (messages.request(10, Operation.CLOSE), "000000080000000afffffff5"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_request_has_bytes_that_server_took(name: str) -> None:
    made, taken = REQUESTS[name]
    assert made.hex() == taken


def test_accepted_session_is_read() -> None:
    data = "0000000000000fa001000023d05f0000000000105356b61ce4844a66e9385063cdd9b77600"
    found = messages.connect_response(bytes.fromhex(data))
    assert (found.timeout_ms, found.session) == (4000, 0x01000023D05F0000)
    assert found.password.hex() == "5356b61ce4844a66e9385063cdd9b776"
    assert "password" not in repr(found)


def test_expired_session_is_read() -> None:
    data = "00000000000000000000000000000000000000100000000000000000000000000000000000"
    found = messages.connect_response(bytes.fromhex(data))
    assert (found.timeout_ms, found.session) == (0, 0)


def test_event_is_read_with_change_that_made_it() -> None:
    header, body = messages.reply(bytes.fromhex("ffffffff0000000000000002000000000000000100000003000000022f74"))
    assert header == messages.ReplyHeader(messages.EVENT_XID, 2, ErrorCode.OK)
    assert messages.node_event(body) == NodeEvent(NodeEventType.CREATED, 3, "/t")


def test_created_node_is_read_with_its_stat() -> None:
    header, body = messages.reply(bytes.fromhex("00000002000000000000000200000000" + "000000022f74" + STAT_BYTES))
    assert header == messages.ReplyHeader(2, 2, ErrorCode.OK)
    assert messages.created(body) == ("/t", STAT)
    assert body.left == 0


def test_no_value_and_empty_value_are_different() -> None:
    parent = messages.node_data(reader("ffffffff" + STAT_BYTES))
    empty = messages.node_data(reader("00000000" + STAT_BYTES))
    assert (parent.value, empty.value) == (None, b"")
    assert parent.stat == empty.stat == STAT


def test_owner_of_ephemeral_is_read() -> None:
    found = messages.node_stat(
        reader(
            "00000000000000030000000000000003000001a1f1729913000001a1f1729913"
            "00000000000000000000000001000023d05f000000000001000000000000000000000003"
        )
    )
    assert found.owner == 0x01000023D05F0000
    assert found.is_ephemeral
    assert not STAT.is_ephemeral
    assert not NodeStat(1, 1, 0, 0, 0, messages.CONTAINER_OWNER, 0).is_ephemeral


def test_names_and_refusals_are_read() -> None:
    assert reader("000000010000000c652d30303030303030303030").texts() == ["e-0000000000"]
    assert reader("ffffffff").texts() == []
    header, _ = messages.reply(bytes.fromhex("000000090000000000000005ffffff99"))
    assert header.error == ErrorCode.BAD_VERSION


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(0, 60))
def test_frames_are_cut_wherever_bytes_end(bodies: list[bytes], missing: int) -> None:
    data = b"".join(messages.frame(body) for body in bodies)
    found, size = messages.split(data[: max(0, len(data) - missing)], 100)
    assert found == bodies[: len(found)]
    again, rest = messages.split(data[size:], 100)
    assert found + again == bodies
    assert size + rest == len(data)


@pytest.mark.parametrize("length", ["ffffffff", "80000000", "00000065"])
def test_frame_of_impossible_length_is_refused(length: str) -> None:
    with pytest.raises(Corrupt):
        messages.split(bytes.fromhex(length), 100)


@pytest.mark.parametrize(
    "data", ["", "00", "fffffffe", "00000005aa", "7fffffff", "0000000180", "00000002c328"], ids=lambda data: data or "-"
)
def test_damaged_text_is_refused(data: str) -> None:
    with pytest.raises(Corrupt):
        reader(data).text()


@pytest.mark.parametrize("data", ["7fffffff", "fffffffe", "0000000200000000", "00000001ffffffff"])
def test_damaged_list_is_refused(data: str) -> None:
    with pytest.raises(Corrupt):
        reader(data).texts()
