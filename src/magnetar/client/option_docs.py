"""What every option of the client means: one table, from which `help()` and docs/CLIENT.md are made.

A key is the name of an option, or `kind.option` where one kind of consumer differs, or `Class.field` of a value class.
A test compares the table with the options that exist.
"""

from __future__ import annotations

MEANINGS: dict[str, str] = {
    # Producers
    "ProducerOptions.name": "Name of the producer. Empty: the broker chooses one. Deduplication needs a name.",
    "batching": "When messages are sent together. `None`: every message is an entry of its own.",
    "compression": "How batches, and messages that are sent alone, are compressed.",
    "chunking": "Send a message that is larger than the broker's limit in several chunks. Persistent topics only.",
    "routing": "Partition of a message without a key: `round_robin`, `single`, or a function of key and partitions."
    " Partitioned topics only.",
    "hashing": "Hash that chooses the partition of a key: `java`, as Java clients, or `murmur3`. Partitioned topics"
    " only.",
    "access_mode": "Who else may produce to the topic.",
    "send_timeout_s": "A message without an answer for this long fails with `TimedOut`: it may be stored."
    " 0: wait without limit.",
    "initial_sequence_id": "Sequence id of the first message. `None`: behind the last one that the broker knows.",
    "ProducerOptions.properties": "Properties of the producer, shown in the statistics of the topic.",
    "initial_subscription": "Subscription that is created with the topic, so that it misses nothing.",
    "follow": "Produce to a plain topic through its layout: the producer goes on when the topic is migrated.",
    # All consumers
    "name": "Name of the consumer. Empty: a unique one.",
    "StreamOptions.name": "Name of the consumer. The same name gets the same segments back within the grace period."
    " Empty: a unique one.",
    "CheckpointOptions.name": "Name of the consumer in its group. Empty: a unique one.",
    "type": "Who gets a message when the subscription has several consumers.",
    "initial_position": "Where a new subscription starts. One that exists goes on at its own position.",
    "priority": "Consumers with a lower number get messages first. `SHARED` and `FAILOVER` only.",
    "properties": "Properties of the consumer, shown in the statistics of the subscription.",
    "subscription_properties": "Properties of a new subscription, kept with it.",
    "durable": "Keep the position when no consumer is attached.",
    "read_compacted": "Read the newest message of each key only, where the topic is compacted.",
    "replicated": "Mark the subscription as replicated between clusters.",
    "key_shared": "How keys are shared out by a `KEY_SHARED` subscription.",
    "queue_messages": "Messages that are requested ahead of the application. 0: one for each waiting `receive`.",
    "StreamOptions.queue_messages": "Messages of each segment that are requested ahead of the application.",
    "QueueOptions.queue_messages": "Messages of each segment that are requested ahead of the application.",
    "CheckpointOptions.queue_messages": "Messages of each segment that are requested ahead of the application.",
    "queue_messages_total": "Bound of `queue_messages` over all partitions or segments together.",
    "queue_bytes": "Bound of all queued messages in bytes, decompressed: beyond it nothing is requested or opened.",
    "ack_group_s": "Acknowledgements are sent together, at most this late. 0: each at once.",
    "ack_group_max": "Acknowledgements are sent when this many wait.",
    "ack_batch_index": "Acknowledge single messages of a batch. Without it a batch is acknowledged as a whole.",
    "ack_timeout_s": "A message that is not acknowledged for this long is delivered again. 0: never.",
    "nack": "Wait before a message comes again after `negative_acknowledge`.",
    "dead_letters": "Where a message goes that was redelivered too often. `None`: it comes again without end.",
    "retry": "Subscribe to the retry topic too, so that `reconsume_later` works.",
    "on_undecodable": "A value that does not fit the schema: `raise` lets `message.value` raise `Undecodable`;"
    " `dead_letter` puts the message to the dead letters. `SHARED` and `KEY_SHARED` only.",
    "on_segments": "Called with a `SegmentsChanged` for every change of the segments that the consumer reads, in order,"
    " on the loop: it must not block. Its errors are logged.",
    "chunked_pending_max": "Messages in chunks that may be incomplete at a time: the oldest gives way.",
    "chunked_expire_s": "A message whose next chunk does not come for this long is given up.",
    "discard_incomplete_chunks": "Acknowledge the chunks of a message that was given up. Without it they come again.",
    "discard_encrypted": "Acknowledge encrypted messages, which this client cannot read. Without it they stay"
    " unacknowledged, for a consumer that has the key.",
    "discovery_s": "How often partitions and topics that match a pattern are looked up.",
    "paused": "Start without requesting messages, until `resume`.",
    # Readers
    "ReaderOptions.name": "Name of the reader. Empty: a unique one.",
    "ReaderOptions.properties": "Properties of the reader, shown in the statistics of the topic.",
    "subscription": "Name of the reader's subscription. Default: a unique one that ends with the reader.",
    "start_inclusive": "Begin with the message of `start` itself, not behind it.",
    "rollback_s": "Begin with messages that were published up to so many seconds before now.",
    "ReaderOptions.key_shared": "Hash ranges of keys to read.",
    # Messages
    "MessageOptions.key": "Key of the message: it chooses the partition or segment, and order holds for each key.",
    "MessageOptions.ordering_key": "Key for `KEY_SHARED` subscriptions, where it differs from `key`.",
    "MessageOptions.properties": "Properties of the message, text to text.",
    "MessageOptions.event_time_ms": "Time of the event, in milliseconds since 1970.",
    "MessageOptions.deliver_at_ms": "Deliver not before this time, in milliseconds since 1970. `SHARED` only.",
    "MessageOptions.deliver_after_s": "Deliver not before so many seconds from now. `SHARED` only.",
    "MessageOptions.sequence_id": "Sequence id for deduplication: it must grow. Default: counted by the producer.",
    "MessageOptions.replicate_to": "Clusters to replicate to. Empty: this cluster only.",
    # Value classes
    "Batching.messages_max": "A batch is closed with so many messages.",
    "Batching.bytes_max": "A batch is closed with so many bytes of payload.",
    "Batching.delay_s": "A batch waits at most so long while another is on its way.",
    "Batching.by_key": "A batch has messages of one key only: `KEY_SHARED` subscriptions need it.",
    "Batching.linger": "Wait `delay_s` also while nothing is on its way.",
    "DeadLetters.redeliveries_max": "Redeliveries before the message goes to the dead letters.",
    "DeadLetters.topic": "Dead-letter topic. Default: `<topic>-<subscription>-DLQ`, of a scalable topic `<topic>-DLQ`.",
    "DeadLetters.retry_topic": "Retry topic. Default: `<topic>-<subscription>-RETRY`.",
    "DeadLetters.initial_subscription": "Subscription that is created with the dead-letter topic, to keep letters.",
    "KeyShared.ranges": "Hash ranges of this consumer, both ends included, of 0..65535. Default: the broker splits.",
    "KeyShared.out_of_order": "Deliver messages of a key to another consumer before the first one acknowledged.",
    "KeyShared.buckets": "The ranges are those of all entry buckets of a segment. For stream consumers.",
    "NackBackoff.first_s": "Wait before the first redelivery.",
    "NackBackoff.max_s": "Longest wait.",
    "NackBackoff.factor": "The wait grows by this factor with each redelivery.",
    "SegmentsChanged.topic": "The scalable topic.",
    "SegmentsChanged.gained": "Segments that the consumer reads from now on.",
    "SegmentsChanged.lost": "Segments that it reads no more: read to their end, given to another consumer, or closed.",
    "Namespace.name": "`tenant/namespace`.",
    "Namespace.properties": "Only topics that have all these properties.",
    # Clients
    "Client.url": "Service URL: `pulsar://host:port`, several hosts separated by commas.",
    "Client.runtime": "Source of time and tasks, for simulations.",
    "Client.operation_timeout_s": "Time for any request, and for the first attach of a producer or consumer. A first"
    " connection that every address refuses fails after 5 s.",
    "Client.listener": "Name of the advertised listener that brokers are to answer with.",
    "Client.pending_bytes_max": "Bytes sent and not answered, over all producers: then `send` and `post` wait.",
    "Client.pending_messages_max": "The same in messages.",
}


def meaning(kind: str, option: str) -> str:
    """Of an option of one kind (`StreamOptions`), or of a field of a value class."""
    return MEANINGS.get(f"{kind}.{option}") or MEANINGS[option]
