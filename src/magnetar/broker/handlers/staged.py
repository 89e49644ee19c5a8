"""BEGIN_STAGE, SEAL_STAGE, COMMIT_STAGES, DROP_STAGES, RENEW_STAGE: exactly-once publishing in batches.

These commands are extensions of Magnetar; a peer that did not announce the extensions gets an error that names them.
`staged` decides; this module translates commands to calls and outcomes to answers. A commit with an unknown outcome is
answered with UnknownError: if the client repeats it, the record decides.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import Refused
from magnetar.base.limits import STAGE_LEASE_S
from magnetar.base.names import TopicName, topic_name
from magnetar.broker.handlers.requests import error_reply, honestly, start, success
from magnetar.staged.codec import stage_id
from magnetar.staged.machine import AlreadyCommitted, Committed
from magnetar.staged.service import May
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection


def begin(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.beginStage
    _start(connection, request.request_id, lambda: _begin(connection, request))


def seal(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.sealStage
    _start(connection, request.request_id, lambda: _seal(connection, request))


def commit(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.commitStages
    _start(connection, request.request_id, lambda: honestly(_commit(connection, request)))


def drop(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.dropStages
    _start(connection, request.request_id, lambda: _drop(connection, request))


def renew(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.renewStage
    _start(connection, request.request_id, lambda: _renew(connection, request))


def _start(connection: Connection, request_id: int, work: Callable[[], Coroutine[object, object, bytes]]) -> None:
    start(connection, _announced(connection, work), error_reply(request_id))


async def _announced(connection: Connection, work: Callable[[], Coroutine[object, object, bytes]]) -> bytes:
    if connection.features is None or not connection.features.magnetar_extensions:
        raise Refused("stages are an extension of Magnetar: announce magnetar_extensions in CONNECT first")
    return await work()


def _target(connection: Connection, text: str) -> TopicName:
    name = topic_name(text)
    _may(connection)(str(name))
    return name


def _may(connection: Connection) -> May:
    """The permission to publish to a topic includes all operations on its stages."""
    return partial(connection.node.allow, connection.principal, "produce")


async def _begin(connection: Connection, request: pb.CommandBeginStage) -> bytes:
    """Refused while the disk is almost full: a stage stores messages. The other calls write records only, and a commit
    or a drop lets the broker delete the stage."""
    node, topic = connection.node, _target(connection, request.topic)
    if node.blocked is not None:
        raise node.blocked.with_traceback(None)
    await node.staging.partitions(topic)  # one that cannot be published to is refused before anything is written
    begun = await node.sinks.begin(topic, request.sink, request.batch, run=request.run, once=request.once)
    answer = pb.BaseCommand(type=pb.BaseCommand.BEGIN_STAGE_RESPONSE)
    reply = answer.beginStageResponse
    reply.request_id = request.request_id
    if isinstance(begun, AlreadyCommitted):
        warning = begun.warning
    else:
        id, stage, warning = begun
        reply.stage, reply.stage_topic = str(id), str(stage)
        reply.lease_ms = round(STAGE_LEASE_S * 1000)
    if warning:
        reply.warning = warning
    return encode_command(answer)


async def _seal(connection: Connection, request: pb.CommandSealStage) -> bytes:
    messages = await connection.node.sinks.seal(stage_id(request.stage), _may(connection))
    answer = pb.BaseCommand(type=pb.BaseCommand.SEAL_STAGE_RESPONSE)
    answer.sealStageResponse.request_id = request.request_id
    answer.sealStageResponse.messages = messages
    return encode_command(answer)


async def _commit(connection: Connection, request: pb.CommandCommitStages) -> bytes:
    topic = _target(connection, request.topic)
    ids = [stage_id(text) for text in request.stages]
    outcome, published = await connection.node.sinks.commit(topic, request.sink, request.batch, ids)
    answer = pb.BaseCommand(type=pb.BaseCommand.COMMIT_STAGES_RESPONSE)
    reply = answer.commitStagesResponse
    reply.request_id = request.request_id
    reply.committed = isinstance(outcome, Committed)
    reply.published = published
    if isinstance(outcome, AlreadyCommitted) and outcome.warning:
        reply.warning = outcome.warning
    return encode_command(answer)


async def _drop(connection: Connection, request: pb.CommandDropStages) -> bytes:
    for text in request.stages:
        await connection.node.sinks.drop(stage_id(text), _may(connection))
    return success(request.request_id)


async def _renew(connection: Connection, request: pb.CommandRenewStage) -> bytes:
    await connection.node.sinks.renew(stage_id(request.stage), _may(connection))
    return success(request.request_id)
