"""Files that decide import nothing that waits; files on the path of a message stay plain for mypyc to compile them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.repository import ROOT, Source, findings, product

# Whole rooms, and single files of rooms that also do. A decider takes values and returns values.
PURE_ROOMS = ["base/", "layout/", "wire/", "scalable/machines/"]
DECIDERS = [
    "cli/completion/candidates.py",
    "cli/completion/engine.py",
    "cli/completion/shell_line.py",
    "cli/demo/order_check.py",
    "cli/settings/client_conf.py",
    "cli/settings/context_document.py",
    "cli/settings/context_fields.py",
    "cli/settings/resolve.py",
    "client/avro/definition.py",
    "client/connection/address.py",
    "client/connection/error_codes.py",
    "client/connection/outage.py",
    "client/connection/replies.py",
    "client/consumer/ack/ack_timeouts.py",
    "client/consumer/ack/acks.py",
    "client/consumer/ack/dead_letters.py",
    "client/consumer/ack/nacks.py",
    "client/consumer/config.py",
    "client/consumer/receive/chunks.py",
    "client/consumer/receive/decode.py",
    "client/consumer/receive/receive_queue.py",
    "client/consumer/scalable/stream/ack_position.py",
    "client/consumer/scalable/stream/assignment.py",
    "client/consumer/scalable/stream/positions.py",
    "client/consumer/start_position.py",
    "client/layout_filter.py",
    "client/message.py",
    "client/producer/batch.py",
    "client/producer/config.py",
    "client/producer/fields.py",
    "client/producer/open_batches.py",
    "client/producer/pending.py",
    "client/producer/router.py",
    "client/producer/scalable/encode.py",
    "client/producer/scalable/segment_queue.py",
    "client/producer/scalable/segment_queues.py",
    "client/schema.py",
    "cluster/creation.py",
    "cluster/lookup.py",
    "cluster/registration.py",
    "cluster/rendezvous.py",
    "cluster/session_state.py",
    "ledger/bookkeeper/digest.py",
    "ledger/bookkeeper/ledger_metadata.py",
    "ledger/bookkeeper/placement.py",
    "ledger/bookkeeper/read_state.py",
    "ledger/bookkeeper/recovery_state.py",
    "ledger/bookkeeper/registration.py",
    "ledger/bookkeeper/wire.py",
    "ledger/bookkeeper/write_state.py",
    "ledger/chain.py",
    "ledger/bookkeeper/engine/count_index.py",
    "ledger/bookkeeper/engine/counted_entry.py",
    "ledger/cursor/acks.py",
    "ledger/cursor/ranges.py",
    "ledger/local/index.py",
    "ledger/local/records.py",
    "ledger/local/scan.py",
    "ledger/retention.py",
    "ledger/run.py",
    "ledger/snapshot_codec.py",
    "metadata/path_checks.py",
    "metadata/zookeeper/address.py",
    "metadata/zookeeper/jute.py",
    "metadata/zookeeper/messages.py",
    "metadata/zookeeper/session.py",
    "observe/limiter.py",
    "policy/config_key.py",
    "policy/protection.py",
    "scalable/record/codec.py",
    "scalable/record/record.py",
    "scalable/record/subscription.py",
    "spark/hashing.py",
    "spark/read/batch_scanner.py",
    "spark/read/columns.py",
    "spark/read/decoder.py",
    "spark/source/offset.py",
    "spark/source/options.py",
    "spark/source/planner.py",
    "spark/source/readable_range.py",
    "spark/source/tasks.py",
    "topic/dedup/codec.py",
    "topic/dedup/dedup.py",
    "topic/dispatch/delayed.py",
    "topic/dispatch/failover.py",
    "topic/dispatch/key_order.py",
    "topic/dispatch/key_selectors.py",
    "topic/dispatch/permits.py",
    "topic/dispatch/redelivery.py",
    "topic/producers/access.py",
]
HOT = [
    "wire/frames.py",
    "wire/entry.py",
    "wire/broker_frames.py",
    "wire/client_commands.py",
    "wire/send_frames.py",
    "wire/client_readers.py",
    "wire/send_reader.py",
    "topic/dispatch/push.py",
    "topic/producers/publish.py",
    "ledger/run.py",
    "ledger/bookkeeper/engine/counted_entry.py",
    "ledger/local/records.py",
]
WAITING = {
    "asyncio",
    "socket",
    "ssl",
    "selectors",
    "threading",
    "concurrent",
    "time",
    "random",
    "secrets",
    "uvloop",
    "sqlite3",
    "logging",
}


def waits(source: Source) -> Iterator[str]:
    for statement, _, target in source.imports:
        if target.split(".")[0] in WAITING:
            yield source.found(statement, f"a file that decides imports no {target.split('.')[0]}")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield source.found(node, "a file that decides does not wait")


def ceremony(source: Source) -> Iterator[str]:
    for statement, _, target in source.imports:
        if target.split(".")[0] == "msgspec" or target in ("typing.Protocol", "dataclasses.dataclass", "dataclasses"):
            yield source.found(statement, f"a hot file has no {target}")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Match):
            yield source.found(node, "a hot file has no match")
        if isinstance(node, ast.Lambda):
            yield source.found(node, "a hot file has no nested function")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in ast.walk(node):
                if inner is not node and isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield source.found(inner, "a hot file has no nested function")


CONSTRUCTOR_PARAMETERS_MAX = 8
# Modules of the broker that take the whole node; all others name what they use in a Protocol. The list only shrinks.
WHOLE_NODE = [
    "broker/connection/connection.py",
    "broker/embedded.py",
    "broker/embedded_cluster.py",
    "broker/handlers/scalable.py",
    "broker/handlers/subscription_seek.py",
    "broker/handlers/topic_list.py",
    "broker/staged/stages.py",
    "broker/standalone.py",
    "broker/topics/retention_sweep.py",
    "broker/topics/topics.py",
]


def crowded(source: Source) -> Iterator[str]:
    """Constructors of components. A class with `__slots__` is a record: its parameters are its fields."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ClassDef) or any(_names(each) == ["__slots__"] for each in node.body):
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                arguments = method.args
                count = len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]) - 1
                if count > CONSTRUCTOR_PARAMETERS_MAX:
                    yield source.found(method, f"{node.name} takes {count} parameters: group them")


def _names(statement: ast.stmt) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def whole_node(source: Source) -> Iterator[str]:
    for statement, _, target in source.imports:
        if target == "magnetar.broker.node.Node" and source.path.removeprefix("src/magnetar/") not in WHOLE_NODE:
            yield source.found(statement, "a component takes a Protocol of what it uses, not the whole node")


def chosen(prefixes: list[str]) -> list[Source]:
    return [source for source in product() if source.path.removeprefix("src/magnetar/").startswith(tuple(prefixes))]


def test_deciders_do_not_wait() -> None:
    assert findings(waits, chosen([*PURE_ROOMS, *DECIDERS])) == []


def test_hot_files_are_plain() -> None:
    assert findings(ceremony, chosen(HOT)) == []


def test_constructors_take_few_parameters() -> None:
    assert findings(crowded, product()) == []


def test_components_of_broker_take_narrow_protocols() -> None:
    assert findings(whole_node, chosen(["broker/"])) == []
    text = "from magnetar.broker.node import Node"
    assert findings(whole_node, [Source("src/magnetar/broker/x.py", text)])


@pytest.mark.parametrize("path", [*DECIDERS, *HOT, *WHOLE_NODE])
def test_lists_name_what_exists(path: str) -> None:
    assert (ROOT / "src" / "magnetar" / path).exists(), "renamed or removed? change the list with it"


@pytest.mark.parametrize(
    "text", ["import asyncio", "def f():\n    from time import monotonic", "async def f():\n    pass"]
)
def test_decider_that_waits_is_caught(text: str) -> None:
    assert findings(waits, [Source("src/magnetar/wire/x.py", text)])


@pytest.mark.parametrize(
    "text",
    [
        "from dataclasses import dataclass",
        "import dataclasses",
        "from typing import Any, Protocol",
        "import msgspec",
        "def f(x):\n    match x:\n        case 1:\n            pass",
        "def f():\n    def g():\n        pass",
        "f = lambda: 1",
    ],
)
def test_ceremony_in_hot_file_is_caught(text: str) -> None:
    assert findings(ceremony, [Source("src/magnetar/wire/frames.py", text)])


def test_crowded_constructor_is_caught() -> None:
    parameters = ", ".join(f"p{number}" for number in range(CONSTRUCTOR_PARAMETERS_MAX + 1))
    text = f"class Component:\n    def __init__(self, {parameters}):\n        pass"
    assert findings(crowded, [Source("src/magnetar/broker/x.py", text)])
    record = text.replace(":\n", ":\n    __slots__ = ()\n", 1)
    assert findings(crowded, [Source("src/magnetar/broker/x.py", record)]) == []
