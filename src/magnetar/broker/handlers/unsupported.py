"""Commands of Pulsar that Magnetar does not support yet: each gets the reply that ends its request.

The text names the missing feature; no request stays open, and the connection is kept. docs/COMPATIBILITY.md lists the
same commands as "not yet".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import NotBuilt
from magnetar.broker.handlers.requests import error_reply
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection

_TRANSACTIONS = "transactions are not supported by this version of Magnetar: send and acknowledge without a transaction"

_TRANSACTION_FIELDS = {
    pb.BaseCommand.NEW_TXN: "newTxn",
    pb.BaseCommand.ADD_PARTITION_TO_TXN: "addPartitionToTxn",
    pb.BaseCommand.ADD_SUBSCRIPTION_TO_TXN: "addSubscriptionToTxn",
    pb.BaseCommand.END_TXN: "endTxn",
    pb.BaseCommand.END_TXN_ON_PARTITION: "endTxnOnPartition",
    pb.BaseCommand.END_TXN_ON_SUBSCRIPTION: "endTxnOnSubscription",
    pb.BaseCommand.TC_CLIENT_CONNECT_REQUEST: "tcClientConnectRequest",
}
TRANSACTIONS = tuple(_TRANSACTION_FIELDS)


def transaction(connection: Connection, command: pb.BaseCommand) -> None:
    request = getattr(command, _TRANSACTION_FIELDS[command.type])
    connection.write(error_reply(request.request_id)(NotBuilt.wire, _TRANSACTIONS))


def watch_coordinators(connection: Connection, command: pb.BaseCommand) -> None:
    answer = pb.BaseCommand(type=pb.BaseCommand.WATCH_TC_ASSIGNMENTS_UPDATE)
    answer.watchTcAssignmentsUpdate.watch_id = command.watchTcAssignments.watch_id
    answer.watchTcAssignmentsUpdate.error = pb.NotAllowedError
    answer.watchTcAssignmentsUpdate.message = _TRANSACTIONS
    connection.write(encode_command(answer))


def nothing_open(connection: Connection, command: pb.BaseCommand) -> None:
    """Closes a session or watch that was refused: nothing is open, and no reply is expected."""
