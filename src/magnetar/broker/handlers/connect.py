"""CONNECT, PING, PONG and AUTH_RESPONSE: the start of a session and its keep-alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar import __version__
from magnetar.base.errors import BadFrame
from magnetar.base.limits import CLIENT_VERSION_CHARS_MAX
from magnetar.observe.log import get
from magnetar.wire import commands
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection

log = get("connect")

NO_REQUEST = 2**64 - 1  # the id that an error in answer to CONNECT has, as Pulsar
EXTENSIONS_VERSION = 1  # version of Magnetar's commands and fields, sent only to peers that sent theirs


def connect(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.connect
    if connection.connected:
        raise BadFrame("CONNECT must be sent only once on a connection")
    if len(request.client_version) > CLIENT_VERSION_CHARS_MAX:
        text = f"client_version must have at most {CLIENT_VERSION_CHARS_MAX} characters: shorten the description"
        connection.write(commands.error(NO_REQUEST, pb.NotAllowedError, text))
        connection.close()
        return
    if request.proxy_to_broker_url:
        log.info("proxied_connect_received", peer=connection.peer, to=request.proxy_to_broker_url)
    connection.client_version = request.client_version
    connection.protocol_version = min(commands.PROTOCOL_VERSION, request.protocol_version)
    connection.features = pb.FeatureFlags.FromString(request.feature_flags.SerializeToString())  # else all is kept
    connection.features.DiscardUnknownFields()
    connection.principal = connection.node.access.authenticate(request.auth_method_name, request.auth_data)
    node = connection.node
    flags = pb.FeatureFlags(
        supports_topic_watchers=node.settings.flag("enableBrokerTopicListWatcher"),
        supports_get_partitioned_metadata_without_auto_creation=True,
        supports_scalable_topics=node.scalable.enabled,
    )
    if request.feature_flags.magnetar_extensions:
        flags.magnetar_extensions = min(EXTENSIONS_VERSION, request.feature_flags.magnetar_extensions)
    connection.connected = True
    node.handshakes.leave(connection)
    connection.frame_bytes_max = node.frame_bytes_max
    connection.write(
        commands.connected(f"Magnetar-{__version__}", connection.protocol_version, node.message_bytes_max, flags)
    )


def ping(connection: Connection, command: pb.BaseCommand) -> None:
    connection.write(commands.PONG)


def pong(connection: Connection, command: pb.BaseCommand) -> None:
    """The connection notes all received data; a PONG also shows what the peer has read."""
    connection.round_trips.ponged()


def auth_response(connection: Connection, command: pb.BaseCommand) -> None:
    """Ignored: authentication is not supported yet, so the broker never sends a challenge."""
