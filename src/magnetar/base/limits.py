"""Every bound of the system, with its unit in its name and its reason beside it.

A queue, retry, cache or wait without a line here is a bug. Settings may lower or raise some of them; these are the defaults.
"""

# Frames and connections
MESSAGE_BYTES_MAX = 5 * 1024 * 1024  # what CONNECTED announces, Pulsar's default
FRAME_PADDING_BYTES = 10 * 1024  # chunk frames exceed the message size by their own metadata (stock-clients A1)
HANDSHAKE_S = 30.0  # a peer that has not sent CONNECT by then is closed
KEEPALIVE_S = 30.0  # PING when nothing was heard for this long; closed at the next tick without an answer

# Journal
JOURNAL_SEGMENT_BYTES = 64 * 1024 * 1024  # preallocated, recycled: large enough to make rolling rare, small enough to return space
JOURNAL_BATCH_BYTES_MAX = 8 * 1024 * 1024  # one write and one sync: bounds the memory of a batch and the wait behind it

# Metadata
METADATA_VALUE_BYTES_MAX = 1_000_000  # value plus path; ZooKeeper's limit is the narrowest
