"""The .proto says what the table of the protocol says, and the generated code is what protoc makes of it today."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from magnetar.wire.proto import pb
from tests.support.golden_vectors import FOLDER

ROOT = Path(__file__).parents[3]
LABELS = {"required", "optional", "repeated"}
OURS = {
    ("FeatureFlags", "magnetar_extensions"): 10000,
    ("ScalableTopicDAG", "routing"): 10000,
    ("ScalableTopicDAG", "term"): 10001,
    ("ScalableTopicDAG", "incarnation"): 10004,
    ("ScalableConsumerAssignment", "term"): 10001,
    ("ScalableConsumerAssignment", "generation"): 10002,
    ("MessageMetadata", "size_index"): 10003,
    ("BrokerEntryMetadata", "messages"): 10009,
    ("BrokerEntryMetadata", "bytes"): 10010,
    ("CommandGetLastMessageIdResponse", "deleted_to"): 10006,
    ("CommandSuccess", "seeks"): 10007,
    ("CommandScalableTopicSubscribe", "initial_position"): 10005,
    ("CommandScalableTopicSubscribe", "resumes"): 10008,
    ("CommandScalableTopicLookup", "advertised_listener_name"): 10009,
    ("CommandScalableTopicAssignmentUpdate", "error"): 10000,
    ("CommandScalableTopicAssignmentUpdate", "message"): 10001,
    ("BaseCommand", "plan"): 1000,
    ("BaseCommand", "planResponse"): 1001,
    ("BaseCommand", "beginStage"): 1002,
    ("BaseCommand", "beginStageResponse"): 1003,
    ("BaseCommand", "sealStage"): 1004,
    ("BaseCommand", "sealStageResponse"): 1005,
    ("BaseCommand", "commitStages"): 1006,
    ("BaseCommand", "commitStagesResponse"): 1007,
    ("BaseCommand", "dropStages"): 1008,
    ("BaseCommand", "renewStage"): 1009,
    ("BaseCommand", "hold"): 1010,
    ("BaseCommand", "holdResponse"): 1011,
    ("BaseCommand", "seekSubscription"): 1012,
    ("BaseCommand", "lag"): 1013,
    ("BaseCommand", "lagResponse"): 1014,
}
# Newer than the release the table was made from.
NEWER = {
    ("BaseCommand", "scalableTopicUnsubscribe"): 82,
    ("CommandScalableTopicUnsubscribe", "request_id"): 1,
    ("CommandScalableTopicUnsubscribe", "consumer_id"): 2,
}
RENAMED = {("Schema.Type", "None"): "NoSchema"}  # Python cannot spell the attribute None


def rows() -> list[dict[str, str]]:
    with (FOLDER / "pulsar-wire.tsv").open() as table:
        lines = list(csv.DictReader(table, delimiter="\t"))
    return [line for line in lines if not line["message_or_enum"].startswith("pendingack.")]


def descriptor(name: str, kind: str):
    found = pb.DESCRIPTOR
    for part in name.split("."):
        if found is pb.DESCRIPTOR:
            in_file = found.message_types_by_name
            found = in_file[part] if part in in_file else found.enum_types_by_name[part]
        else:
            found = found.enum_types_by_name[part]
    assert isinstance(found, EnumDescriptor) == (kind == "enum")
    return found


def type_name(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        return field.message_type.full_name.removeprefix("magnetar.wire.")
    if field.enum_type is not None:
        return field.enum_type.full_name.removeprefix("magnetar.wire.")
    names = {value: name for name, value in vars(FieldDescriptor).items() if name.startswith("TYPE_")}
    return names[field.type].removeprefix("TYPE_").lower()


def default_text(field: FieldDescriptor) -> str:
    if not field.has_default_value:
        return ""
    if field.enum_type is not None:
        return field.enum_type.values_by_number[field.default_value].name
    return str(field.default_value).lower()


def test_every_row_of_table_is_in_proto():
    for row in rows():
        found = descriptor(row["message_or_enum"], row["kind"])
        name = row["field_or_value_name"]
        if row["kind"] == "enum":
            name = RENAMED.get((row["message_or_enum"], name), name)
            assert found.values_by_name[name].number == int(row["number"]), row
        elif name:
            field = found.fields_by_name[name]
            assert row["label"] in LABELS
            assert field.is_required == (row["label"] == "required"), row
            assert field.is_repeated == (row["label"] == "repeated"), row
            assert (field.number, type_name(field)) == (int(row["number"]), row["type"]), row
            assert default_text(field) == row["default"], row
            assert not field.is_packed


def carried_by_our_commands() -> set[str]:
    """Messages that Pulsar does not have and that only commands from 1000 on carry."""
    known = {row["message_or_enum"] for row in rows()}
    waiting = [field.message_type for field in pb.BaseCommand.DESCRIPTOR.fields if field.number >= 1000]
    found: set[str] = set()
    while waiting:
        message = waiting.pop()
        if message.name not in found and message.name not in known:
            found.add(message.name)
            waiting += [field.message_type for field in message.fields if field.message_type is not None]
    return found


def test_nothing_but_our_announced_extensions_and_newest_command_is_added():
    known = {(row["message_or_enum"], row["field_or_value_name"]) for row in rows()}
    ours = carried_by_our_commands()
    added = {
        (message.name, field.name): field.number
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
        if message.name not in ours and (message.name, field.name) not in known
    }
    assert added == OURS | NEWER


def test_snapshot_and_diff_exclude_each_other():
    update = pb.CommandWatchScalableTopicsUpdate(watch_id=1, snapshot=pb.ScalableTopicsSnapshot(topics=["a"]))
    update.diff.added.append("b")
    assert not update.HasField("snapshot")


@pytest.mark.parametrize("suffix", ["py", "pyi"])
def test_generated_code_is_fresh(tmp_path, suffix):
    """If this fails: `make proto`."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-Imagnetar/wire/generated={ROOT}/src/magnetar/wire"]
    outputs = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([*command, *outputs, "magnetar/wire/generated/pulsar.proto"], check=True)
    name = f"magnetar/wire/generated/pulsar_pb2.{suffix}"
    assert (ROOT / "src" / name).read_text() == (tmp_path / name).read_text()
