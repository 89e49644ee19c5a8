"""`magnetar message`: produce, consume, read, peek.

In a pipe a message is its payload, a line each; JSON lines say everything else about it. Payloads that are no text are
shown as base64. Standard error tells how many there were.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from magnetar.base.errors import MagnetarError, Misuse, NotFound
from magnetar.base.names import topic_name
from magnetar.cli import wire
from magnetar.cli.cells import Cell
from magnetar.cli.exits import Exit, tell
from magnetar.cli.options import COMMON, TRAFFIC, Common, Properties, Traffic, flag, properties
from magnetar.cli.output import Facts, Output, Sheet
from magnetar.cli.places import place
from magnetar.cli.received import document, messages, peeked

if TYPE_CHECKING:
    from magnetar.client.client import Client
    from magnetar.client.message import Message, MessageId

    Receive = Callable[[float | None], Awaitable[Message[bytes]]]
    Acknowledge = Callable[[Message[bytes]], Awaitable[None]]

STDIN_BYTES = 64 * 1024  # read at once, where so much is there

Type = Literal["exclusive", "shared", "failover", "key-shared"]
Codec = Literal["none", "lz4", "zlib", "zstd", "snappy"]
Number = Annotated[int, Parameter(validator=validators.Number(gte=0))]
Seconds = Annotated[float, Parameter(validator=validators.Number(gte=0))]
Subscription = Annotated[str, Parameter(name=["--subscription", "-s"])]
Count = Annotated[int, Parameter(name=["--count", "-n"], validator=validators.Number(gte=0))]


def produce(
    topic: str,
    /,
    *texts: str,
    file: Annotated[Path | None, Parameter(name=["--file", "-f"], validator=validators.Path(exists=True))] = None,
    key: Annotated[str | None, Parameter(name=["--key", "-k"])] = None,
    property: Properties = None,
    repeat: Annotated[int, Parameter(name=["--repeat", "-n"], validator=validators.Number(gte=1))] = 1,
    compression: Codec = "none",
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> Exit:
    """Send messages: the texts given, a file as one message, or each line of standard input.

    Standard output has the id of each message once it is stored.

    Parameters
    ----------
    topic
        Where to; it is made where using it would.
    texts
        One message each.
    file
        A file whose bytes are one message.
    key
        The key of each message.
    repeat
        Send all of it so many times.
    compression
        How messages are compressed.

    Examples
    --------
    $ magnetar message produce orders hello world
    $ magnetar message produce orders '{"id": 1}' --key customer-1 --property source=cli
    $ magnetar message produce orders --repeat 100 hello
    """
    own = properties(property)
    given = _given(texts, file)
    output = common.out
    if change.dry_run:
        payloads = given if given is not None else sys.stdin.buffer.read().splitlines()
        planned = [{"topic": str(topic_name(topic)), "key": key, "bytes": len(one)} for one in payloads * repeat]
        rows = [(one["topic"], one["key"], one["bytes"]) for one in planned]
        output.show(planned, Sheet(("TOPIC", "KEY", "BYTES"), rows, title="Would send:"))
        return Exit.OK
    return wire.run(_produce(common, output, topic, (given, repeat), key=key, properties=own, compression=compression))


async def _produce(
    common: Common, output: Output, topic: str, source: tuple[list[bytes] | None, int], **options: Any
) -> Exit:
    from magnetar.client.producer import Compression

    compression = Compression[options.pop("compression").upper()]
    failures: list[MagnetarError] = []
    async with wire.connected(common) as client:
        producer = await client.create_producer(topic, compression=compression, send_timeout_s=common.timeout)
        with output.rows(lambda row: row["id"], columns=("topic", "id")) as rows:

            def done(message_id: MessageId | None, error: MagnetarError | None) -> None:
                if message_id is not None:
                    rows.add({"topic": message_id.topic or producer.topic, "id": str(message_id)})
                elif error is not None:
                    failures.append(error)

            async for payload in _payloads(client, *source):
                await producer.post(payload, done, **options)
                if failures:
                    break
            await producer.flush()
    if failures:
        raise failures[0]
    _say(common, f"produced {rows.count:,} to {producer.topic} ✓")
    return Exit.OK


def consume(
    topic: str,
    /,
    *,
    subscription: Subscription,
    count: Count = 1,
    type: Annotated[Type, Parameter(name=["--type", "-t"])] = "shared",
    start: Literal["latest", "earliest"] = "earliest",
    wait: Seconds | None = None,
    ack: Annotated[bool, Parameter(negative="--no-ack")] = True,
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> Exit:
    """Receive messages through a subscription and acknowledge them.

    Ends after COUNT messages, or when none came for WAIT seconds: with exit code 6 if fewer came than were asked for.

    Parameters
    ----------
    topic
        Where from.
    subscription
        Through which subscription; it is made if it is not there.
    count
        How many; 0 without end.
    type
        How consumers of the subscription share its messages; those of a scalable topic share its segments.
    start
        Where a new subscription starts.
    wait
        Seconds without a message after which to end.
    ack
        Acknowledge what was received.

    Examples
    --------
    $ magnetar message consume orders -s billing
    $ magnetar message consume orders -s billing --count 0 --wait 1 -o jsonl
    """
    output = common.out
    if change.dry_run:
        name = str(topic_name(topic))
        planned: dict[str, Cell] = {"topic": name, "subscription": subscription, "type": type, "acknowledge": ack}
        output.show(planned, Facts(planned, title="Would consume:"))
        return Exit.OK
    asked = {"subscription": subscription, "type": type, "start": start}
    return wire.run(_consume(common, output, topic, asked, count=count, wait=wait, ack=ack))


async def _consume(
    common: Common, output: Output, topic: str, asked: dict[str, str], *, count: int, wait: float | None, ack: bool
) -> Exit:
    from magnetar.client.receive import NoMessage

    async with wire.connected(common) as client:
        receive, acknowledge = await _consumer(client, topic, asked)
        with messages(output) as rows:
            while not count or rows.count < count:
                try:
                    message = await receive(wait)
                except NoMessage:
                    break
                rows.add(document(message))
                rows.flush()
                if ack:
                    await acknowledge(message)
    _say(common, f"consumed {rows.count:,} ✓")
    if rows.count >= count:
        return Exit.OK
    tell(
        f"{rows.count:,} of {count:,} messages came",
        why=f"none came for {wait:g} s",
        run="the same with a longer --wait",
        code="E600",
    )
    return Exit.TIMED_OUT


async def _consumer(client: Client, topic: str, asked: dict[str, str]) -> tuple[Receive, Acknowledge]:
    """Of a scalable topic it takes every key in order, and what it has acknowledged goes for all before it."""
    from magnetar.client.subscribing import InitialPosition, SubscriptionType

    subscription, start = asked["subscription"], InitialPosition[asked["start"].upper()]
    # Whoever asks for two messages of a batch has consumed two.
    if topic_name(topic).is_scalable:
        stream = await client.stream_consumer(topic, subscription, initial_position=start, ack_batch_index=True)
        return stream.receive, stream.acknowledge_cumulative
    type = SubscriptionType[asked["type"].upper().replace("-", "_")]
    plain = await client.subscribe(topic, subscription, type=type, initial_position=start, ack_batch_index=True)
    return plain.receive, plain.acknowledge


def read(
    topic: str,
    /,
    *,
    start: Annotated[str, Parameter(allow_leading_hyphen=True)] = "earliest",
    count: Count = 0,
    follow: Annotated[bool, flag("Wait for more at the end of the topic.", "--follow", "-F")] = False,
    common: Common = COMMON,
) -> Exit:
    """Read messages without a subscription: nothing is acknowledged, nobody else notices.

    Parameters
    ----------
    topic
        Where from.
    start
        earliest, latest, a message id (12:34), a moment of publishing (2026-11-15T10:00:00Z) or how long ago (10m).
    count
        At most so many; 0 is all there are.

    Examples
    --------
    $ magnetar message read orders --count 10
    $ magnetar message read orders --start 1h -o jsonl
    """
    return wire.run(_read(common, common.out, topic, start, count, follow))


async def _read(common: Common, output: Output, topic: str, start: str, count: int, follow: bool) -> Exit:
    async with wire.connected(common) as client, _reader(client, topic, start) as reader:
        with messages(output) as rows:
            while (not count or rows.count < count) and (follow or await reader.has_message_available()):
                rows.add(document(await reader.receive()))
                if follow:
                    rows.flush()
    _say(common, f"read {rows.count:,} ✓")
    return Exit.OK


@asynccontextmanager
async def _reader(client: Any, topic: str, start: str) -> AsyncIterator[Any]:
    """At an id, a reader begins with that message; at a time, it seeks."""
    from magnetar.client.message import MessageId

    where = place(start, client.runtime.wall())
    if isinstance(where, int):
        async with await client.create_reader(topic) as reader:
            await reader.seek(where)
            yield reader
    elif isinstance(where, str):
        at = MessageId.EARLIEST if where == "earliest" else MessageId.LATEST
        async with await client.create_reader(topic, at) as reader:
            yield reader
    else:
        at = MessageId(where.ledgerId, where.entryId, where.partitionIndex, where.batchIndex)
        async with await client.create_reader(topic, at, start_inclusive=True) as reader:
            yield reader


def peek(
    topic: str,
    /,
    *,
    subscription: Subscription,
    count: Annotated[int, Parameter(name=["--count", "-n"], validator=validators.Number(gte=1))] = 1,
    common: Common = COMMON,
) -> None:
    """Look at the next messages of a subscription: nothing is consumed. Asked over REST.

    Parameters
    ----------
    topic
        The topic, or one partition.
    subscription
        Whose messages.
    count
        How many entries; one that holds a batch shows all its messages.

    Examples
    --------
    $ magnetar message peek orders -s billing --count 5
    """
    with common.session() as session:
        name = str(topic_name(topic))
        session.about(topic=name, subscription=subscription)
        with messages(session.output) as rows:
            for position in range(1, count + 1):
                try:
                    found = session.admin.messages.peek(name, subscription, position)
                except NotFound as error:
                    if "message" in error.what.lower() and (position > 1 or "not found" in error.what.lower()):
                        break
                    raise
                for message in found:
                    rows.add(peeked(name, message))


VERBS = {"produce": produce, "consume": consume, "read": read, "peek": peek}


# Messages, in and out


def _given(texts: Iterable[str], file: Path | None) -> list[bytes] | None:
    """The messages of the command line; None where they come from standard input."""
    given = [text.encode() for text in texts]
    if file is not None:
        given.append(file.read_bytes())
    if not given and sys.stdin.isatty():
        raise Misuse("there is nothing to send: give texts, --file, or lines on standard input")
    return given or None


async def _payloads(client: Client, given: list[bytes] | None, repeat: int) -> AsyncIterator[bytes]:
    if given is None:
        async for line in _lines(client):
            for _ in range(repeat):
                yield line
        return
    for _ in range(repeat):
        for one in given:
            yield one


async def _lines(client: Client) -> AsyncIterator[bytes]:
    """Lines of standard input as they come: while one is awaited, those before it are on their way."""
    left, fileno = b"", sys.stdin.fileno()
    while data := await client.runtime.offload(lambda: os.read(fileno, STDIN_BYTES), "stdin"):
        *lines, left = (left + data).split(b"\n")
        for line in lines:
            yield line
    if left:
        yield left


def _say(common: Common, line: str) -> None:
    if not common.quiet:
        sys.stderr.write(line + "\n")
