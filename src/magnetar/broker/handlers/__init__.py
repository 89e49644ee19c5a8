"""One file per family of commands; this table maps each command to its function.

A handler runs on the loop and does not wait. Work that waits uses `request.start`, whose failure reply is the one that
ends that kind of request in the stock clients (SC-A3). SEND, ACK and FLOW are not here: they arrive by the thousand and
have their own readers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.broker.handlers import (
    connect,
    consume,
    lookup,
    namespace_watch,
    produce,
    read_plan,
    scalable,
    schema,
    staged,
    subscription_seek,
    topic_list,
    unsupported,
)
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection

Handler = Callable[["Connection", pb.BaseCommand], None]
_T = pb.BaseCommand

# With a schema, stages or places in them: they may be larger than all others.
LISTING: frozenset[int] = frozenset(
    (
        *(_T.PRODUCER, _T.SUBSCRIBE, _T.GET_OR_CREATE_SCHEMA, _T.SEEK),
        *(_T.COMMIT_STAGES, _T.DROP_STAGES, _T.PLAN, _T.HOLD, _T.LAG, _T.SEEK_SUBSCRIPTION),
    )
)

COMMANDS: dict[int, Handler] = {
    _T.CONNECT: connect.connect,
    _T.PING: connect.ping,
    _T.PONG: connect.pong,
    _T.AUTH_RESPONSE: connect.auth_response,
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
    _T.GET_TOPICS_OF_NAMESPACE: topic_list.topics_of_namespace,
    _T.WATCH_TOPIC_LIST: topic_list.watch,
    _T.WATCH_TOPIC_LIST_CLOSE: topic_list.unwatch,
    _T.GET_SCHEMA: schema.get_schema,
    _T.GET_OR_CREATE_SCHEMA: schema.get_or_create_schema,
    **dict.fromkeys(unsupported.TRANSACTIONS, unsupported.transaction),
    _T.PLAN: read_plan.plan,
    _T.HOLD: read_plan.hold,
    _T.LAG: read_plan.lag,
    _T.SEEK_SUBSCRIPTION: subscription_seek.seek,
    _T.SCALABLE_TOPIC_LOOKUP: scalable.lookup,
    _T.SCALABLE_TOPIC_CLOSE: scalable.close,
    _T.SCALABLE_TOPIC_SUBSCRIBE: scalable.subscribe,
    _T.SCALABLE_TOPIC_UNSUBSCRIBE: scalable.unsubscribe,
    _T.WATCH_SCALABLE_TOPICS: namespace_watch.watch,
    _T.WATCH_SCALABLE_TOPICS_CLOSE: namespace_watch.unwatch,
    _T.BEGIN_STAGE: staged.begin,
    _T.SEAL_STAGE: staged.seal,
    _T.COMMIT_STAGES: staged.commit,
    _T.DROP_STAGES: staged.drop,
    _T.RENEW_STAGE: staged.renew,
    _T.WATCH_TC_ASSIGNMENTS: unsupported.watch_coordinators,
    _T.WATCH_TC_ASSIGNMENTS_CLOSE: unsupported.nothing_open,
}
