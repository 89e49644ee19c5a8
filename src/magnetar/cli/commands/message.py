"""`magnetar message`: produce, consume, read, peek.

In a pipe, each line is the payload of a message; JSON lines also have all other fields. Binary payloads are shown as
base64. The number of messages goes to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.names import topic_name
from magnetar.cli import connect
from magnetar.cli.exit_codes import Exit, tell
from magnetar.cli.messages.consumers import ConsumerType, requested_type, stored_type, subscribed
from magnetar.cli.messages.line_format import LineFormat, Outgoing
from magnetar.cli.messages.peek import segments_of, unacknowledged
from magnetar.cli.messages.readers import opened
from magnetar.cli.options import COMMON, TRAFFIC, Common, Properties, Traffic, flag, properties
from magnetar.cli.output.messages import document, messages, peeked
from magnetar.cli.output.output import KeyValues, Output, TableData
from magnetar.cli.output.values import Cell
from magnetar.cli.positions import refuse_malformed
from magnetar.cli.scalable import topics

if TYPE_CHECKING:
    from magnetar.client.client import Client
    from magnetar.client.message import MessageId

STDIN_BYTES = 64 * 1024  # upper limit of one read

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
    lines: Annotated[Path | None, Parameter(validator=validators.Path(exists=True))] = None,
    stdin: Annotated[
        bool, flag("Read lines from standard input, in addition to texts. The argument `-` does the same.")
    ] = False,
    key_separator: str | None = None,
    header_separator: str | None = None,
    key: Annotated[str | None, Parameter(name=["--key", "-k"])] = None,
    property: Properties = None,
    repeat: Annotated[int, Parameter(name=["--repeat", "-n"], validator=validators.Number(gte=1))] = 1,
    compression: Codec = "none",
    delay: Seconds | None = None,
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> Exit:
    """Send messages: the given texts, a file as one message, or each line of a file or of standard input.

    The command prints the id of each message after the broker has stored it. Separators give each line its own key and
    properties. With the separators `|` and `:`, the line `source=web|customer-1:hello` has the property `source=web`
    and the key `customer-1`. A backslash and the letter t, together, are a tab.

    Parameters
    ----------
    topic
        Topic to send to. It is created if the broker creates topics on first use.
    texts
        Texts to send, one message each.
    file
        File to send as one message.
    lines
        File to send line by line, one message per line.
    key_separator
        Separator in lines: the text before it is the key.
    header_separator
        Separator in lines: the text before it has the properties, as name=value,name=value. Key and message follow.
    key
        Key of each message without its own key.
    repeat
        Number of times to send all messages.
    compression
        Compression of the messages.
    delay
        Seconds after which Shared and queue consumers receive the messages.

    Examples
    --------
    $ magnetar message produce orders hello world
    $ magnetar message produce orders '{"id": 1}' --key customer-1 --property source=cli
    $ magnetar message produce orders --repeat 100 hello
    $ printf 'ada:1\\nbob:2\\n' | magnetar message produce orders - --key-separator :
    """
    own = properties(property)
    source = _given(texts, file, lines, LineFormat.of(key_separator, header_separator), stdin=stdin)
    output = common.out
    if change.dry_run:
        sent = [*source.all(), *(source.read(sys.stdin.buffer.read().splitlines()) if source.stdin else [])] * repeat
        planned = [{"topic": str(topic_name(topic)), "key": one.key or key, "bytes": len(one.payload)} for one in sent]
        rows = [(one["topic"], one["key"], one["bytes"]) for one in planned]
        output.show(planned, TableData(("TOPIC", "KEY", "BYTES"), rows, title="Would send:"))
        return Exit.OK
    options: dict[str, Any] = {"key": key, "properties": own, "compression": compression, "delay": delay}
    return connect.run(_produce(common, output, topic, (source, repeat), **options))


async def _produce(
    common: Common, output: Output, topic: str, source: tuple[MessagesToSend, int], *, key: str | None, **options: Any
) -> Exit:
    from magnetar.client.producer.producer import Compression

    compression = Compression[options["compression"].upper()]
    own: dict[str, str] = options["properties"]
    later: dict[str, Any] = {} if options["delay"] is None else {"deliver_after_s": options["delay"]}
    failures: list[MagnetarError] = []
    async with connect.connected(common) as client:
        producer = await client.create_producer(topic, compression=compression, send_timeout_s=common.timeout)
        with output.rows(lambda row: row["id"], columns=("topic", "id")) as rows:

            def done(message_id: MessageId | None, error: MagnetarError | None) -> None:
                if message_id is not None:
                    rows.add({"topic": message_id.topic or producer.topic, "id": str(message_id)})
                elif error is not None:
                    failures.append(error)

            async for outgoing in _messages(client, *source):
                arguments = {"key": outgoing.key or key, "properties": {**own, **outgoing.properties}, **later}
                await producer.post(outgoing.payload, done, **arguments)
                if failures:
                    break
            await producer.flush()
    if failures:
        raise failures[0]
    _say(common, f"produced {rows.count:,} to {producer.topic} ✓")
    return Exit.OK


def consume(
    topic: str,
    name: str | None = None,
    /,
    *,
    subscription: Subscription | None = None,
    count: Count = 1,
    type: Annotated[ConsumerType | None, Parameter(name=["--type", "-t"])] = None,
    start: Literal["latest", "earliest"] = "earliest",
    wait: Seconds | None = None,
    ack: Annotated[bool, Parameter(negative="--no-ack")] = True,
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> Exit:
    """Receive messages through a subscription and acknowledge them.

    The command ends after COUNT messages, or when no message arrives for WAIT seconds. The exit code is 6 if fewer than
    COUNT messages arrived.

    Parameters
    ----------
    topic
        Topic to receive from.
    name
        Subscription name. The subscription is created if it does not exist.
    subscription
        Subscription name, as an option.
    count
        Number of messages; 0 means without limit.
    type
        How consumers of the subscription share its messages. Default: shared. On a scalable topic: stream or queue.
        Default there: the type of the subscription, and stream for a new one.
    start
        Start position of a new subscription.
    wait
        Seconds without a message after which the command ends. Default: no limit.
    ack
        Acknowledge received messages.

    Examples
    --------
    $ magnetar message consume orders billing
    $ magnetar message consume orders -s billing --count 0 --wait 1 -o jsonl
    $ magnetar message consume topic://public/default/clicks workers --type queue
    """
    output = common.out
    subscription = _subscription(name, subscription, "consume", topic)
    kind = requested_type(topic, type)
    if change.dry_run:
        name = str(topic_name(topic))
        planned: dict[str, Cell] = {"topic": name, "subscription": subscription, "type": kind, "acknowledge": ack}
        output.show(planned, KeyValues(planned, title="Would consume:", optional=frozenset(("type",))))
        return Exit.OK
    consumer = (topic, subscription, kind or stored_type(common, topic, subscription), start)
    return connect.run(_consume(common, output, consumer, count=count, wait=wait, ack=ack))


async def _consume(
    common: Common,
    output: Output,
    consumer: tuple[str, str, ConsumerType, str],
    *,
    count: int,
    wait: float | None,
    ack: bool,
) -> Exit:
    from magnetar.client.consumer.receive.waiters import NoMessage

    async with connect.connected(common) as client:
        receive, acknowledge = await subscribed(client, *consumer)
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
        f"{rows.count:,} of {count:,} messages arrived",
        why=f"no message arrived for {wait:g} s",
        run="the same command with a longer --wait",
        code="E600",
    )
    return Exit.TIMED_OUT


def read(
    topic: str,
    /,
    *,
    start: Annotated[str, Parameter(allow_leading_hyphen=True)] = "earliest",
    count: Count = 0,
    follow: Annotated[bool, flag("Wait for new messages at the end of the topic.", "--follow", "-F")] = False,
    common: Common = COMMON,
) -> Exit:
    """Read messages without a subscription. The command acknowledges nothing and does not affect consumers.

    On a scalable topic, every key is read in order across all splits and merges.

    Parameters
    ----------
    topic
        Topic to read from.
    start
        earliest, latest, a message id (12:34; not on a scalable topic), a publish time (2026-11-15T10:00:00Z) or an age
        (10m).
    count
        Maximum number of messages; 0 means all messages.

    Examples
    --------
    $ magnetar message read orders --count 10
    $ magnetar message read orders --start 1h -o jsonl
    $ magnetar message read topic://public/default/clicks --count 10
    """
    refuse_malformed(start)
    return connect.run(_read(common, common.out, topic, start, count, follow))


async def _read(common: Common, output: Output, topic: str, start: str, count: int, follow: bool) -> Exit:
    async with connect.connected(common) as client, opened(client, topic, start) as reader:
        with messages(output) as rows:
            while (not count or rows.count < count) and (follow or not await reader.is_over()):
                message = await reader.receive(follow=follow)
                if message is not None:
                    rows.add(document(message))
                if follow:
                    rows.flush()
    _say(common, f"read {rows.count:,} ✓")
    return Exit.OK


def peek(
    topic: str,
    name: str | None = None,
    /,
    *,
    subscription: Annotated[str | None, Parameter(name=["--subscription", "-s"])] = None,
    count: Annotated[int, Parameter(name=["--count", "-n"], validator=validators.Number(gte=1))] = 1,
    common: Common = COMMON,
) -> None:
    """Show the next messages of a subscription over REST, without consuming them.

    On a scalable topic, messages come segment by segment: a segment comes after its parents.

    Parameters
    ----------
    topic
        Topic name, or the name of one partition.
    name
        Subscription name.
    subscription
        Subscription name, as an option.
    count
        Maximum number of messages.

    Examples
    --------
    $ magnetar message peek orders billing --count 5
    """
    whose = _subscription(name, subscription, "peek", topic)
    with common.session() as session:
        full = str(topic_name(topic))
        session.about(topic=full, subscription=whose)
        parts = segments_of(session, full, whose) if topics.is_scalable(full) else [full]
        with messages(session.output) as rows:
            for message in islice(unacknowledged(session, parts, whose), count):
                rows.add(peeked(full, message))


VERBS = {"produce": produce, "consume": consume, "read": read, "peek": peek}


def _subscription(name: str | None, option: str | None, verb: str, topic: str) -> str:
    """The name from the argument or from the option; they must not differ."""
    if name is not None and option is not None and name != option:
        raise Misuse("expected one subscription, got two", given=f"{name} and --subscription {option}")
    named = name or option
    if not named:
        raise Misuse(f"a subscription is required: magnetar message {verb} TOPIC SUBSCRIPTION", topic=topic)
    return named


# Messages, in and out


@dataclass(frozen=True, slots=True)
class MessagesToSend:
    """Messages of the command line and of files; `stdin` adds the lines of standard input."""

    messages: list[Outgoing]
    file: Path | None
    format: LineFormat
    stdin: bool

    def all(self) -> Iterator[Outgoing]:
        yield from self.messages
        if self.file is not None:
            with self.file.open("rb") as lines:
                yield from self.read(line.rstrip(b"\n") for line in lines)

    def read(self, lines: Iterable[bytes]) -> Iterator[Outgoing]:
        return (self.format.parse(line, number) for number, line in enumerate(lines, start=1))


def _given(
    texts: Iterable[str], file: Path | None, lines: Path | None, format: LineFormat, *, stdin: bool
) -> MessagesToSend:
    outgoing = [Outgoing(text.encode()) for text in texts]
    if file is not None:
        outgoing.append(Outgoing(file.read_bytes()))
    nothing = not outgoing and lines is None
    if nothing and not stdin and sys.stdin.isatty():
        raise Misuse("nothing to send: pass texts, --file, --lines, or lines on standard input")
    if not format.is_plain and not nothing and lines is None and not stdin:
        raise Misuse("separators apply to --lines and standard input only: use --key and --property for texts")
    return MessagesToSend(outgoing, lines, format, stdin or nothing)


async def _messages(client: Client, source: MessagesToSend, repeat: int) -> AsyncIterator[Outgoing]:
    for _ in range(repeat):
        for message in source.all():
            yield message
    if source.stdin:
        number = 0
        async for line in _lines(client):
            number += 1
            message = source.format.parse(line, number)
            for _ in range(repeat):
                yield message


async def _lines(client: Client) -> AsyncIterator[bytes]:
    """Yields lines of standard input as they arrive. Earlier messages are sent while it waits for the next line."""
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
