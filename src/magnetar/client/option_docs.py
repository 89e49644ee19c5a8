"""The meaning of every client option: one table, the source of `help()` and docs/CLIENT.md.

A key is the name of an option, or `kind.option` where one kind of consumer differs, or `Class.field` of a value class.
A test compares the table with the options that exist.
"""

from __future__ import annotations

MEANINGS: dict[str, str] = {
    # Producers
    "ProducerOptions.name": "Name of the producer. Empty: the broker chooses one. Deduplication needs a name.",
    "batching": "When messages are sent together. `None`: every message becomes its own entry.",
    "compression": "Compression of batches, and of messages that are sent alone.",
    "chunking": "Send a message that is larger than the broker's limit in several chunks. Persistent topics only.",
    "routing": "Partition of a message without a key: `round_robin`, `single`, or a function of key and partitions."
    " Partitioned topics only.",
    "hashing": "Hash that chooses the partition of a key: `java`, as Java clients, or `murmur3`. Partitioned topics"
    " only.",
    "access_mode": "Whether other producers may produce to the topic.",
    "send_timeout_s": "A message without a receipt after this time fails with `TimedOut`: it may be stored."
    " 0: wait without limit.",
    "initial_sequence_id": "Sequence id of the first message. `None`: after the last one that the broker stored.",
    "ProducerOptions.properties": "Properties of the producer, shown in the statistics of the topic.",
    "initial_subscription": "Subscription that is created with the topic, so that it receives every message.",
    "follow": "Produce to a plain topic through its layout: the producer continues when the topic is migrated.",
    # All consumers
    "name": "Name of the consumer. Empty: a unique one.",
    "StreamOptions.name": "Name of the consumer. A consumer with the same name gets the same segments within the grace"
    " period. Empty: a unique one.",
    "CheckpointOptions.name": "Name of the consumer in its group. Empty: a unique one.",
    "type": "How the broker distributes messages when the subscription has several consumers.",
    "initial_position": "Where a new subscription starts. An existing one continues at its own position.",
    "priority": "Consumers with a lower number get messages first. `SHARED` and `FAILOVER` only.",
    "properties": "Properties of the consumer, shown in the statistics of the subscription.",
    "subscription_properties": "Properties of a new subscription, stored with it.",
    "durable": "Keep the position when no consumer is attached.",
    "read_compacted": "Read only the newest message of each key from a compacted topic. No topic is compacted yet.",
    "replicated": "Mark the subscription as replicated between clusters.",
    "key_shared": "How a `KEY_SHARED` subscription distributes the keys.",
    "queue_messages": "Messages that are requested ahead of the application. 0: one for each pending `receive`.",
    "StreamOptions.queue_messages": "Messages of each segment that are requested ahead of the application.",
    "QueueOptions.queue_messages": "Messages of each segment that are requested ahead of the application.",
    "CheckpointOptions.queue_messages": "Messages of each segment that are requested ahead of the application.",
    "queue_messages_total": "Bound of `queue_messages` over all partitions or segments together.",
    "queue_bytes": "Bound of all queued messages in bytes, decompressed: at the bound no more messages are requested.",
    "ack_group_s": "Acknowledgements are sent together, after at most this time. 0: send each immediately.",
    "ack_group_max": "Acknowledgements are sent when this many are pending.",
    "ack_batch_index": "Acknowledge single messages of a batch. If false, a batch is acknowledged as a whole.",
    "ack_timeout_s": "A message that is not acknowledged within this time is redelivered. 0: never.",
    "nack": "Delay of the redelivery after `negative_acknowledge`.",
    "dead_letters": "Destination of a message after too many redeliveries. `None`: redeliver without limit.",
    "retry": "Subscribe to the retry topic too: `reconsume_later` requires it.",
    "on_undecodable": "A value that does not fit the schema: `raise` lets `message.value` raise `Undecodable`;"
    " `dead_letter` sends the message to the dead-letter topic. `SHARED` and `KEY_SHARED` only.",
    "on_segments": "Called with a `SegmentsChanged` for every change of the segments that the consumer reads, in order,"
    " on the loop: it must not block. Its errors are logged.",
    "chunked_pending_max": "Number of chunked messages that may be incomplete at the same time; the consumer defers "
    "further ones, and a reader ends with `LimitExceeded`.",
    "chunked_expire_s": "A chunked message is dropped if its next chunk does not arrive within this time.",
    "discard_incomplete_chunks": "Acknowledge the chunks of a dropped message. If false, the broker redelivers them.",
    "discard_encrypted": "Acknowledge encrypted messages, which this client cannot read. If false, they stay"
    " unacknowledged, for a consumer that has the key.",
    "discovery_s": "Interval between lookups of partitions and of topics that match a pattern.",
    "paused": "Start paused: request no messages until `resume`.",
    # Readers
    "ReaderOptions.name": "Name of the reader. Empty: a unique one.",
    "ReaderOptions.properties": "Properties of the reader, shown in the statistics of the topic.",
    "subscription": "Name of the reader's subscription. Default: a unique one that ends with the reader.",
    "start_inclusive": "Begin with the message at `start` itself, and not after it.",
    "rollback_s": "Begin with messages published up to this many seconds ago.",
    "ReaderOptions.key_shared": "Hash ranges of keys to read.",
    # Messages
    "MessageOptions.key": "Key of the message: it chooses the partition or segment. Messages of one key stay in order.",
    "MessageOptions.ordering_key": "Key for `KEY_SHARED` subscriptions, if it differs from `key`.",
    "MessageOptions.properties": "Properties of the message, text to text.",
    "MessageOptions.event_time_ms": "Time of the event, in milliseconds since 1970.",
    "MessageOptions.deliver_at_ms": "Earliest delivery time, in milliseconds since 1970. `SHARED` only.",
    "MessageOptions.deliver_after_s": "Earliest delivery, in seconds from now. `SHARED` only.",
    "MessageOptions.sequence_id": "Sequence id for deduplication: it must increase. Default: counted by the producer.",
    "MessageOptions.replicate_to": "Clusters to replicate to. Empty: this cluster only.",
    # Value classes
    "Batching.messages_max": "A batch is sent when it has this many messages.",
    "Batching.bytes_max": "A batch is sent when it has this many bytes of payload.",
    "Batching.delay_s": "Longest wait of a batch while another batch is in flight.",
    "Batching.by_key": "A batch has messages of one key only: `KEY_SHARED` subscriptions require it.",
    "Batching.linger": "Wait `delay_s` also while no batch is in flight.",
    "DeadLetters.redeliveries_max": "Redeliveries before the message is sent to the dead-letter topic.",
    "DeadLetters.topic": "Dead-letter topic. Default: `<topic>-<subscription>-DLQ`, of a scalable topic `<topic>-DLQ`.",
    "DeadLetters.retry_topic": "Retry topic. Default: `<topic>-<subscription>-RETRY`.",
    "DeadLetters.initial_subscription": "Subscription that is created with the dead-letter topic, to keep letters.",
    "KeyShared.ranges": "Hash ranges of this consumer within 0..65535, both ends included. Default: chosen by the"
    " broker.",
    "KeyShared.out_of_order": "Deliver messages of a key to another consumer before the first one acknowledged.",
    "KeyShared.buckets": "The ranges are those of all entry buckets of a segment. For stream consumers.",
    "NackBackoff.first_s": "Delay of the first redelivery.",
    "NackBackoff.max_s": "Longest delay.",
    "NackBackoff.factor": "Growth of the delay with each redelivery.",
    "SegmentsChanged.topic": "The scalable topic.",
    "SegmentsChanged.gained": "Segments that the consumer reads from now on.",
    "SegmentsChanged.lost": "Segments that it stopped reading: read to the end, moved to another consumer, or closed.",
    "Namespace.name": "`tenant/namespace`.",
    "Namespace.properties": "Only topics that have all these properties.",
    # Clients
    "Client.url": "Service URL: `pulsar://host:port`, several hosts separated by commas.",
    "Client.runtime": "Source of time and tasks, for simulations.",
    "Client.operation_timeout_s": "Timeout of any request, and of the first attach of a producer or consumer. A first"
    " connection that every address refuses fails after 5 s.",
    "Client.listener": "Name of the advertised listener: brokers return its addresses.",
    "Client.pending_bytes_max": "Bytes sent without a receipt yet, over all producers: at this bound `send` and `post`"
    " wait.",
    "Client.pending_messages_max": "The same bound in messages.",
}


def meaning(kind: str, option: str) -> str:
    """The meaning of an option of one kind (`StreamOptions`), or of a field of a value class."""
    return MEANINGS.get(f"{kind}.{option}") or MEANINGS[option]
