"""One file per family of commands; this table says which function takes which command.

A handler runs on the loop and returns at once; what must wait goes through `request.start`, whose failure reply is the
one that ends that kind of request in the stock clients (stock-clients A3). SEND, ACK and FLOW are not here: they arrive
by the thousand and have readers of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.broker.handlers import (
    consume,
    listing,
    lookup,
    members,
    notbuilt,
    plan,
    produce,
    scalable,
    schema,
    seek,
    session,
    stages,
)
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection

Handler = Callable[["Connection", pb.BaseCommand], None]
_T = pb.BaseCommand

COMMANDS: dict[int, Handler] = {
    _T.CONNECT: session.connect,
    _T.PING: session.ping,
    _T.PONG: session.pong,
    _T.AUTH_RESPONSE: session.auth_response,
    _T.PARTITIONED_METADATA: lookup.partitioned_metadata,
    _T.LOOKUP: lookup.lookup,
    _T.PRODUCER: produce.producer,
    _T.CLOSE_PRODUCER: produce.close_producer,
    _T.SUBSCRIBE: consume.subscribe,
    _T.UNSUBSCRIBE: consume.unsubscribe,
    _T.CLOSE_CONSUMER: consume.close_consumer,
    _T.REDELIVER_UNACKNOWLEDGED_MESSAGES: consume.redeliver,
    _T.SEEK: consume.seek,
    _T.GET_LAST_MESSAGE_ID: consume.get_last_message_id,
    _T.CONSUMER_STATS: consume.consumer_stats,
    _T.GET_TOPICS_OF_NAMESPACE: listing.topics_of_namespace,
    _T.WATCH_TOPIC_LIST: listing.watch,
    _T.WATCH_TOPIC_LIST_CLOSE: listing.unwatch,
    _T.GET_SCHEMA: schema.get_schema,
    _T.GET_OR_CREATE_SCHEMA: schema.get_or_create_schema,
    **dict.fromkeys(notbuilt.TRANSACTIONS, notbuilt.transaction),
    _T.PLAN: plan.plan,
    _T.HOLD: plan.hold,
    _T.SEEK_SUBSCRIPTION: seek.seek,
    _T.SCALABLE_TOPIC_LOOKUP: scalable.lookup,
    _T.SCALABLE_TOPIC_CLOSE: scalable.close,
    _T.SCALABLE_TOPIC_SUBSCRIBE: scalable.subscribe,
    _T.SCALABLE_TOPIC_UNSUBSCRIBE: scalable.unsubscribe,
    _T.WATCH_SCALABLE_TOPICS: members.watch,
    _T.WATCH_SCALABLE_TOPICS_CLOSE: members.unwatch,
    _T.BEGIN_STAGE: stages.begin,
    _T.SEAL_STAGE: stages.seal,
    _T.COMMIT_STAGES: stages.commit,
    _T.DROP_STAGES: stages.drop,
    _T.RENEW_STAGE: stages.renew,
    _T.WATCH_TC_ASSIGNMENTS: notbuilt.watch_coordinators,
    _T.WATCH_TC_ASSIGNMENTS_CLOSE: notbuilt.nothing_open,
}
