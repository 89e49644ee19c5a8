"""What a type checker sees of the public client: values keep their type from schema to message, mistakes are named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

GIVEN = """
from dataclasses import dataclass
from typing import assert_type

import magnetar
from magnetar import aio


@dataclass
class Order:
    id: int


async def awaited() -> None:
    async with aio.Client("pulsar://localhost:6650") as client:
        plain = await client.create_producer("t")
        assert_type(plain, aio.Producer[bytes])
        orders = await client.create_producer("t", schema=magnetar.Json(Order), chunking=True)
        assert_type(orders, aio.Producer[Order])
        assert_type(await orders.send(Order(1), key="k"), magnetar.MessageId)
        assert_type(await client.create_producer("t", schema=magnetar.Avro(Order)), aio.Producer[Order])
        consumer = await client.subscribe("t", "s", schema=magnetar.Json(Order))
        assert_type(await consumer.receive(), magnetar.Message[Order])
        async for message in consumer:
            assert_type(message.value, Order)
        reader = await client.create_reader("t", schema=magnetar.String())
        assert_type((await reader.receive()).value, str)
        table = await client.create_table_view("t", schema=magnetar.String())
        assert_type(table["k"], str)
        async with client.create_producer("t", schema=magnetar.Json(Order)) as entered:
            assert_type(entered, aio.Producer[Order])
        async with client.subscribe("t", "s") as plainly, client.create_reader("t") as read:
            assert_type(plainly, aio.Consumer[bytes])
            assert_type(read, aio.Reader[bytes])
        async with client.stream_consumer("t", "s", schema=magnetar.String()) as stream:
            assert_type(await stream.receive(), magnetar.Message[str])
        async with client.create_producer("t") as entered_plain:
            await entered_plain.send("text")  # wrong
        await orders.send("an order")  # wrong
        await plain.send(b"", keys="k")  # wrong


def blocking() -> None:
    with magnetar.Client("pulsar://localhost:6650") as client:
        texts = client.create_producer("t", schema=magnetar.String())
        assert_type(texts, magnetar.Producer[str])
        assert_type(texts.send("x", properties={"a": "b"}), magnetar.MessageId)
        for message in client.subscribe(["a", "b"], "s"):
            assert_type(message.data, bytes)
            assert_type(message.value, bytes)
        texts.send(b"bytes")  # wrong
        client.subscribe("t", "s", queue=3)  # wrong
"""


def _mypy(given: Path) -> tuple[list[int], str]:
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(given)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    return sorted({int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error:" in line}), found.stdout


def _pyright(given: Path) -> tuple[list[int], str]:
    (given.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    found = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, str(given)],
        capture_output=True,
        text=True,
        check=False,
        cwd=given.parent,
    )
    said = json.loads(found.stdout)["generalDiagnostics"]
    return sorted({each["range"]["start"]["line"] + 1 for each in said if each["severity"] == "error"}), found.stdout


@pytest.mark.parametrize("check", [_mypy, _pyright])
def test_values_keep_their_type_and_mistakes_are_named(
    tmp_path: Path, check: Callable[[Path], tuple[list[int], str]]
) -> None:
    given = tmp_path / "given.py"
    given.write_text(GIVEN)
    wrong = [number for number, line in enumerate(GIVEN.splitlines(), start=1) if line.endswith("# wrong")]
    errors, said = check(given)
    assert errors == wrong, said
