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
METADATA_BATCH_OPS_MAX = 1_000  # operations in one transaction: bounds the wait of the first behind the last
METADATA_QUEUE_OPS_MAX = 100_000  # operations waiting for the store; more is refused as Busy, a caller without a bound is a bug
METADATA_PAGE_NODES_MAX = 1_000  # nodes a scan reads at once: a writer waits behind one page, never behind a whole listing
METADATA_PAGE_NAMES_MAX = 10_000  # names a listing reads at once; names are far smaller than nodes
METADATA_PAGE_BYTES_MAX = 4 * 1024 * 1024  # values in one page, past the first: bounds memory whatever the values are
METADATA_CHECKED_TRIES_MAX = 5  # rounds of put, re-read, compare before an unknown outcome is handed to the caller
METADATA_UPDATE_TRIES_MAX = 100  # compare-and-set rounds of one update: more than that many rivals is a livelock
METADATA_CACHE_ENTRIES_MAX = 10_000  # decoded records one cache keeps
METADATA_RETRY_S_MIN, METADATA_RETRY_S_MAX = 0.1, 60.0  # back-off of a lock whose store did not answer (stock-clients D)
ELECTION_RETRY_S = 5.0  # as Pulsar: a failed election is tried again after this long
LEADER_WAIT_S = 30.0  # reading the leader while an election is open waits at most this long
