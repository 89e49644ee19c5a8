# long: one table of all bounds of the system
"""Every bound of the system, with its unit in its name and its reason beside it.

A queue, retry, cache or wait without an entry here is a bug. Settings may change some of them; these are the defaults.
"""

# Frames and connections
MESSAGE_BYTES_MAX = 5 * 1024 * 1024  # what CONNECTED announces, Pulsar's default
FRAME_PADDING_BYTES = 10 * 1024  # chunk frames exceed the message size by their own metadata (SC-A1)
FRAME_PADDING_BYTES_MIN = 9 * 1024  # the rest of the padding is for the bytes that a ledger store adds to an entry
HANDSHAKE_FRAME_BYTES_MAX = 16 * 1024  # before CONNECT is answered: the largest tokens have 8 KiB
HANDSHAKE_S = 10.0  # from accept to CONNECT: stock clients send it immediately
HANDSHAKES_MAX = 2_000  # connections before their CONNECT: 32 MiB of frames; beyond it the oldest goes
BATCH_MESSAGES_MAX = 1_000_000  # in one entry: stock clients send 1,000, and an uncompressed frame has no room for more
BATCH_MESSAGE_BYTES_MIN = 6  # of one message in a batch: the size of its metadata, and the size of its payload in that
RECEIPT_LEADS_CACHED_MAX = 10_000  # pairs of producer and ledger whose part of a receipt is remembered: about 3 MiB
KEEPALIVE_S = 30.0  # PING when nothing was heard for this long; closed at the next tick without an answer
KEEPALIVE_TURN_CONNECTIONS_MAX = 200  # that get a PING in one turn of the loop: each may be a call of the system

# Journal
JOURNAL_SEGMENT_BYTES = (
    64 * 1024 * 1024
)  # preallocated, recycled: large enough to make rolling rare, small enough to return space
JOURNAL_BATCH_BYTES_MAX = 8 * 1024 * 1024  # one write and one sync: bounds the memory of a batch and the wait behind it

# Metadata
METADATA_VALUE_BYTES_MAX = 1_000_000  # value plus path; ZooKeeper's limit is the narrowest
METADATA_BATCH_OPS_MAX = 1_000  # operations in one transaction: bounds the wait of the first behind the last
METADATA_QUEUE_OPS_MAX = (
    100_000  # operations waiting for the store; more is refused as Busy, a caller without a bound is a bug
)
METADATA_PAGE_NODES_MAX = (
    1_000  # nodes that one scan step reads: a writer waits behind one page, never behind a whole listing
)
METADATA_PAGE_NAMES_MAX = 1_000  # names that one listing step reads: 3 MiB, encoded, of names of maximum size
METADATA_PAGE_BYTES_MAX = 4 * 1024 * 1024  # values in one page, after the first: bounds memory for values of any size
METADATA_CHECKED_TRIES_MAX = 5  # rounds of put, re-read, compare before an unknown outcome is handed to the caller
METADATA_UPDATE_TRIES_MAX = 100  # compare-and-set rounds of one update: more than that many rivals is a livelock
METADATA_CACHE_ENTRIES_MAX = 10_000  # decoded records one cache keeps
METADATA_CACHE_BYTES_MAX = 4 * 1024 * 1024  # of their paths and values as stored: clients choose the names in paths
METADATA_RETRY_S_MIN = 0.1  # back-off of a lock whose store did not answer, doubling to a third of a session (SC-D2)
SESSION_S = 30.0  # of a session with a metadata store that does not say its timeout: Pulsar's default
LOCKS_AT_ONCE_MAX = 100  # locks that a process validates at the same time after a lost session
ELECTION_RETRY_S = 5.0  # as Pulsar: a failed election is tried again after this long
LEADER_WAIT_S = 30.0  # reading the leader while an election is open waits at most this long

# ZooKeeper
ZOOKEEPER_FRAME_BYTES_MAX = 64 * 1024 * 1024  # of one answer: a million names in one node are 38 MB
ZOOKEEPER_REQUEST_BYTES_MAX = 1_048_000  # the server drops the connection at 1,048,575 and says nothing
ZOOKEEPER_PENDING_BYTES_MAX = 64 * 1024 * 1024  # requests without an answer: more is refused as Busy
ZOOKEEPER_SERVERS_MAX = 32  # in one URL: ensembles have 3 to 7, and observers
ZOOKEEPER_CONNECT_S_MIN = 1.0  # for a socket and an accepted session, where the session's time gives less
ZOOKEEPER_REDIAL_S_MIN, ZOOKEEPER_REDIAL_S_MAX = 0.1, 1.0  # between two rounds through all servers
ZOOKEEPER_OPEN_S = 30.0  # the first session: longer than an ensemble needs to elect a leader
ZOOKEEPER_CLOSE_S = 2.0  # for the answer to the end of a session: without it the session ends by its time
ZOOKEEPER_SESSION_S = 10.0  # asked by default: topics of a dead broker are back after it
ZOOKEEPER_RECORDS_AT_ONCE_MAX = 64  # records that a scan reads together: each has up to 1 MB
ZOOKEEPER_DELETIONS_AT_ONCE_MAX = 128  # leaves of a tree that are deleted together
ZOOKEEPER_TREES_AT_ONCE_MAX = 16  # nodes with children below one node that are emptied together
ZOOKEEPER_PUT_TRIES_MAX = 10  # rounds of a put that meets a node appearing or disappearing under it

# BookKeeper
BOOKKEEPER_FRAME_BYTES_MAX = 5_242_880  # stock bookies drop a connection at a larger frame
BOOKKEEPER_REQUEST_S = 5.0  # for an answer: shorter times drop healthy bookies of a busy machine
BOOKKEEPER_CONNECT_S = 3.0  # for a socket to a bookie: a machine that is off says nothing
BOOKKEEPER_REDIAL_S_MIN, BOOKKEEPER_REDIAL_S_MAX = 0.1, 5.0  # a bookie that refused is not dialled again, doubling
BOOKKEEPER_PENDING_BYTES_MAX = 128 * 1024 * 1024  # requests to one bookie without an answer: beyond it, it failed
BOOKKEEPER_PENDING_REQUESTS_MAX = 200_000  # the same in requests, 600 bytes each in memory
BOOKKEEPER_QUARANTINE_S = 60.0  # a bookie that failed is chosen last for this long
BOOKKEEPER_QUARANTINED_MAX = 1_000  # bookies of a cluster are fewer; the one that failed first leaves
BOOKKEEPER_BOOKIES_AGE_S = 5.0  # the list of bookies is read again after this, and when it does not suffice
BOOKKEEPER_REPLACE_RETRY_S = 5.0  # a position without a bookie is looked at again after this
BOOKKEEPER_METADATA_S = 30.0  # an ensemble change or a seal without an answer of the metadata store ends the ledger
BOOKKEEPER_METADATA_RETRY_S = 0.2  # between two tries of it
BOOKKEEPER_CREATE_TRIES_MAX = 5  # ids that other clients used already
BOOKKEEPER_RECOVERY_AHEAD_ENTRIES = 64  # read at the same time by a recovery: as many as a writer has in flight
BOOKKEEPER_RECOVERY_TRIES_MAX = 5  # recoveries that another client's change of the metadata made void
BOOKKEEPER_SPECULATE_S = 1.0  # a read without an answer asks a second bookie after this
BOOKKEEPER_READ_ENTRIES_MAX = 64  # single reads in flight for one read of a range
BOOKKEEPER_BATCH_ENTRIES_MAX = 1_000  # of one batch read: the answer has a frame's limit too
BOOKKEEPER_LISTED_AT_ONCE_MAX = 1_000  # names of one page of ledgers: a folder of the layout has at most 10,000

# Deciders of a topic
FAILOVER_NAMES_CACHED_MAX = 1_024  # names whose points are kept: a pattern consumer brings one name to every topic
STICKY_RANGES_MAX = 65_536  # Key_Shared ranges of one subscription: one for each slot, more can only be nonsense
DELAYED_TICK_MS = 100  # delayed messages are due in steps of this: late by at most one step, never early
DELAYED_POSITIONS_MAX = 1_000_000  # delayed messages of one subscription in memory; then it stops reading ahead
DELAYED_STEP_BYTES = 320  # of one step of them, beside 8 bytes for each position: an array, a pair and two places
DELAYED_SLOT_BYTES = 176  # of one position where keys are shared: the slot of its key is kept beside it
UNACKED_ENTRY_BYTES = 200  # of an entry that a Shared consumer has, or that waits to be delivered again
KEYED_UNACKED_ENTRY_BYTES = 400  # the same of a Key_Shared consumer: the order of its key is kept too
SUBSCRIPTIONS_STATE_BYTES_MAX = 384 * 1024 * 1024  # of delayed and unacknowledged entries of all subscriptions
STATE_CHARGE_STEP_BYTES = 1024  # charged at a time: a subscription with less goes on where the sum is reached
STATE_LOOK_S = 5.0  # a subscription that the sum stopped looks again after this: others may have released memory
PRODUCER_WAITERS_MAX = 1_000  # WaitForExclusive producers queued on one topic: each holds a request open
DEDUP_PRODUCERS_MAX = 10_000  # producers whose sequence ids a topic remembers, as Pulsar; the least recently used goes
DEDUP_SPAN_MAX = 10_000  # sequence ids of one batch without keys that are looked at one by one after a merge
CHUNK_UUID_BYTES_MAX = 256  # a longer uuid of a message in chunks is kept as a digest; clients use names of 40 to 80
CHUNK_OWNERS_MAX = 1_000  # half-delivered chunked messages of a subscription: the oldest loses its fixed consumer
LEFTOVER_AGAIN_S = 1.0  # retry interval after the rest of a sealed segment could not be read
POSITIONS_PASSED_MAX = 1_000  # acknowledged positions that one loop iteration passes in a check: about 2 ms
SHARED_SHARE_ENTRIES_MAX = 20  # entries in a row to one Shared consumer before its neighbour's turn, as Pulsar

# Managed ledgers and cursors
LEDGER_ENTRIES_MAX = 50_000  # a ledger is rolled at this many entries once it is LEDGER_AGE_S_MIN old, as Pulsar
LEDGER_BYTES_MAX = 2 * 1024 * 1024 * 1024  # or at this size: the unit in which retention returns space
LEDGER_AGE_S_MIN, LEDGER_AGE_S_MAX = 600.0, 14_400.0  # never younger: a fast topic would roll every second; never older
LEDGER_ROLL_RETRY_S = 10.0  # a roll without the metadata store is delayed by this; the full ledger continues
LEDGER_DEATHS_MAX = 3  # consecutive writers that died before confirming an entry; then the topic fails
LEDGER_READERS_MAX = 8  # open readers of one topic: backlog consumers read near each other
QUORUM_DEFAULT = 2  # ensemble, write quorum and ack quorum where nothing is set, as Pulsar
POLICY_ENSEMBLE_MAX = 5  # the largest numbers of the policy `persistence`, as Pulsar
ENSEMBLE_MAX = 64  # nodes that share the entries of one ledger: real ensembles have 2 to 7
COUNT_PLACES_MAX = 512  # places of a ledger in BookKeeper with the counts before them: 12 KiB
COUNT_PROBES_MAX = 16  # entries that one search for places reads: each is a round trip
COUNT_PROBES_AT_ONCE_MAX = 4  # of them together: entries may have 5 MiB
COUNT_READ_BYTES_MAX = 4 * 1024 * 1024  # of one read that counts a ledger of another program, entry by entry
BOOKKEEPER_METADATA_READS_MAX = 32  # metadata records that one listing reads together
CLOCK_DRIFT_S_MAX = 60.0  # difference of the wall clock from its last reading plus elapsed time: a larger one is a jump
CLOCK_JUMP_BELIEVED_S = 3_600.0  # a jump this long is accepted as the right time; before, no data ages by it
CLOCK_START_TRUSTED_S = 600.0  # no data is deleted by age in the first minutes: a wrong clock is often corrected then
SIZES_KEPT_S = 60.0  # sizes of all segments of a topic are read again after this: as often as trimming looks
SIZES_TOPICS_MAX = 1_000  # topics whose sizes are remembered: the one used longest ago goes
TAIL_CACHE_BYTES_MAX = (
    64 * 1024 * 1024
)  # newest runs of all topics of a broker together: consumers at the tail read no files
TAIL_UNREAD_RUNS_MAX = 16  # of a topic without readers so far: their memory stays in the processor's caches
CURSOR_HOLES_WARN = 10_000  # gaps in one subscription before a warning
# Of one subscription, 80 bytes each. Consumers cannot cause more under the default limits: each gap has an entry that
# is delayed (1,000,000) or unacknowledged (200,000). A refused acknowledgement stays unacknowledged and counts towards
# the caps on those, so correct consumers must not reach this bound.
CURSOR_GAPS_MAX = 1_500_000
CURSOR_BATCHES_BYTES_MAX = 64 * 1024 * 1024  # of batches acknowledged in part: 200,000 of 1,000 messages
CURSOR_COUNTS_MAX = 200_000  # entries whose redeliveries are counted, 96 bytes each: as many as may be unacknowledged
CURSOR_GAP_BYTES = 80  # of one gap: two numbers, and their places in two lists
CURSOR_COUNT_BYTES = 96  # of one such count: two numbers and their place
CURSORS_ACKS_BYTES_MAX = 128 * 1024 * 1024  # of gaps, batches and counts of all subscriptions: 1,600,000 gaps
CURSOR_FLUSH_S = 1.0  # acknowledgements lost in a crash are at most this old: redelivered, never skipped
CURSOR_FLUSH_S_MAX = 30.0  # a large cursor is flushed less often, at least this often
CURSOR_FLUSH_BYTES = 64 * 1024  # snapshot bytes a cursor may write per CURSOR_FLUSH_S
CURSOR_OFFLOAD_BYTES_MIN = 256 * 1024  # of memory of a cursor: a larger state is encoded in a thread
CURSOR_FLUSHES_MAX = 64  # snapshots written at the same time by one flusher
CURSORS_AT_ONCE_MAX = 256  # cursors of one topic opened or closed together: they share reads, transactions and syncs
SNAPSHOT_DOUBTS_MAX = 8  # unanswered writes of one record that are remembered to recognize them later: the oldest goes
SNAPSHOT_ENTRY_BYTES_MAX = 1024 * 1024  # a larger snapshot is cut into several entries of one run
SNAPSHOT_LEDGER_ENTRIES_MAX = 10_000  # then a snapshot ledger is rolled: bounds what recovery and deletion handle
SNAPSHOT_LEDGER_BYTES_MAX = (
    16 * 1024 * 1024
)  # or at this size, or four snapshots where one is larger than a quarter of it

# Local ledgers
JOURNAL_AHEAD_BYTES = 1024 * 1024  # blocks made before they are written: a sync then has no metadata to write
JOURNAL_AHEAD_BYTES_MAX = 16 * 1024 * 1024  # the same under load, so that allocation keeps up with large batches
JOURNAL_AHEAD_ROOM = 8  # free space, in times such blocks, where they are made
JOURNAL_ZEROS_BATCH_BYTES_MAX = 128 * 1024  # batches below it find zeros already on the disk; larger ones only blocks
INDEX_PLAIN_ITEMS_MAX = 2048  # newest records of an open ledger whose index is not packed: 36 bytes each
JOURNAL_JOIN_BYTES_MAX = 64 * 1024  # a batch up to this size is written as one buffer: the copy takes microseconds
JOURNAL_SPARES_MAX = 2  # emptied segments kept for reuse: the next two rolls allocate nothing; more returns to the disk
JOURNAL_SPARE_ROOM = 4  # free space, in times the spares, where they are kept: near a full disk they are its room
JOURNAL_FILES_OPEN_MAX = 64  # descriptors of segments: a backlog of terabytes must not run out of them
JOURNAL_LIVE_PERCENT_MIN = 25  # a segment with less in use is copied away: the disk holds at most four times what lives
JOURNAL_COPY_BYTES_MAX = 1024 * 1024  # copied in one step: publishers wait behind at most this much
JOURNAL_READ_BYTES_MAX = 4 * 1024 * 1024  # one pread: bounds the memory of a read over many neighbouring records
JOURNAL_READ_GAP_BYTES = 32 * 1024  # other ledgers' bytes read along rather than split a read in two
RUN_BYTES_MAX = 1024 * 1024 * 1024  # one run: offsets in a segment are 32 bit
PROPERTY_NUMBER_MAX = 2**53  # terms, epochs and lives count up by one: a larger number was never counted
LEDGER_IDS_RESERVED = 100  # ids taken from the counter together: a create costs one write, a crash skips at most these

# Observing
LOG_LINES_PER_S_MAX = 10  # of one kind: a peer can cause a line with every frame, and the log is beside the messages
LOG_VALUE_CHARS_MAX = 400  # of one value in a line: a reason fits, a name or version that a peer made up does not
LOG_TRACE_CHARS_MAX = 20_000  # of a traceback: a hundred frames
LOG_ONCE_KEYS_MAX = 1_000  # different things one log says once: what comes from clients must not fill memory
METRIC_SAMPLES_PER_TURN = 1_000  # gathered before a scrape lets others run

# Connections: what one peer can make the broker hold
CONNECTION_PENDING_BYTES_MAX = 16 * 1024 * 1024  # published and not yet stored: then its socket is not read
CONNECTION_REQUESTS_MAX = 1_000  # requests in progress: a pattern consumer sends hundreds together
REQUESTS_MAX = 8_000  # the same of all connections: beyond, each has the number in the next line
CONNECTION_REQUESTS_MIN = 8  # a client that uses little goes on while others wait
MEMORY_FULL_BYTES = 12 * 1024 * 1024 * 1024  # of the machine: with less, the sums over all connections are lower too
MEMORY_SHARE_MIN = 8  # but at least an eighth of them
MEMORY_SCALED_BYTES = 2_256 * 1024 * 1024  # the total of those sums, with enough memory: a test adds them up
MEMORY_FIXED_BYTES = 1_450 * 1024 * 1024  # the total of the other sums
CONNECTION_OWN_BYTES = 800 * 1024  # what each connection may hold beside the sums: a test adds it up
CONNECTIONS_MIN = 500  # that a small machine takes too: few connections use all that they may
ADDRESS_CONNECTIONS_MAX = 1_000  # of one address, unless it is the machine's own; Pulsar's clients open a few each
CONNECTION_WRITE_BYTES_HIGH = 1024 * 1024  # unread by the peer: then nothing more is pushed to it
CONNECTION_WRITE_BYTES_LOW = 64 * 1024  # the same where very many connections are open, as Pulsar's brokers
CONNECTION_WRITE_BYTES_SUM = 64 * 1024 * 1024  # divided by the number of connections: the bound between those two
UNREAD_BYTES_MAX = 256 * 1024 * 1024  # of all connections over that bound; then the one longest over it is closed
CONNECTION_READ_BYTES = 256 * 1024  # of one read of a socket: what uvloop asks for at most
FRAME_JOIN_BYTES_MAX = 16 * 1024  # a larger frame cut by a read is put together alone, so that the rest is not copied
CONNECTION_TURN_COMMANDS_MAX = 64  # beside sends, taken in one turn of the loop: part of a millisecond, then others
LARGE_COMMAND_BYTES_MIN = 16 * 1024  # a larger ACK or REDELIVER is taken in pieces; stock clients name 1,000 ids
COMMAND_PIECE_IDS_MAX = 1_000  # message ids of a large command that one turn of the loop takes: some milliseconds
COMMAND_BYTES_MAX = 64 * 1024  # of all commands but sends, ACK, REDELIVER and these: names, properties, a pattern
LISTING_COMMAND_BYTES_MAX = 1024 * 1024  # of those with a schema, stages or places: a schema is the largest
PARTIAL_FRAMES_BYTES_MAX = 128 * 1024 * 1024  # of large frames of all connections that are not whole yet
CONNECTION_REFUSALS_PER_S_MAX = 1_000  # requests; then the connection is not read for a while
REFUSALS_PAUSE_S = 1.0  # that while: a client in a loop of errors costs little, and goes on by itself
ID_BYTES_MAX = 256 * 1024  # of one message id in a large command: the bits of the largest batch, and more
ACK_SET_WORDS_MAX = 16_384  # 64 messages each: more than a batch of the largest size holds
ACK_SET_TURN_WORDS_MAX = 8_192  # of entries acknowledged in part that are sent together: 2 ms, or those of one entry
CONNECTION_PRODUCERS_MAX = 10_000  # each is a name, an object and a place in its topic: some 2 KB
CONNECTION_CONSUMERS_MAX = 10_000  # the same; a pattern consumer has one for each of its topics
CREATIONS_BURST_MAX = 1_000  # topics that a connection creates by using them, at full speed: an application that starts
CREATIONS_PER_S_MAX = 100  # topics beyond these: each costs a record on the disk and an object for a minute
CREATION_WAIT_S_MAX = 5.0  # until the turn of a request that creates one: clients wait for 30 s
ATTACH_TURN_MAX = 16  # producers and consumers of all connections that attach in one turn: up to half a ms each
LEAVING_TURN_CLIENTS_MAX = 32  # producers and consumers of an ended connection that leave in one turn of the loop
LEAVING_TURN_ENTRIES_MAX = 5_000  # unacknowledged entries that those consumers leave behind: some milliseconds
CONNECTION_WATCHES_MAX = 10_000  # layouts of scalable topics that one connection watches; as many namespaces
CONNECTION_TOPIC_LISTS_MAX = 1_000  # topic lists that one connection watches: one for each pattern consumer
PATTERN_BYTES_MAX = 256 * 1024  # of a compiled pattern: 2 ms; a larger one is left to the client that sent it
PATTERNS_CACHED_MAX = 64  # compiled patterns that are kept: 16 MiB at most
TOPIC_LISTS_NAMES_MAX = 1_000_000  # names in all watched lists together, some 64 MiB: equal patterns share one list
TOPIC_LISTS_TURN_MAX = 16  # changed lists sent in one turn: each is sorted and hashed once
TOPIC_LIST_TURN_NAMES_MAX = 1_000  # names matched in one turn when a list is read
MEMBERS_GATHER_S = 0.05  # changes of a namespace's topics go out together, as Pulsar's brokers do
MEMBERS_TOLD_BYTES_MAX = 1024 * 1024  # of names in one command: every client takes frames that large
SEGMENTS_CREATE_MAX = 1_024  # of a new topic: each one is a topic to make before the caller is answered
SEALED_LAYOUT_S = 1.0  # producers of a sealed segment wait for the next layout: a reshape commits in milliseconds
GIVEN_PROPERTIES_MAX = 64  # of a producer, consumer or subscription: applications and connectors give fewer than ten
GIVEN_PROPERTIES_BYTES_MAX = 4 * 1024  # of a producer or consumer: stored while connected, shown in statistics
STORED_PROPERTIES_BYTES_MAX = 64 * 1024  # of a topic or subscription: a part of its record, read at every load
CONNECTION_KEPT_BYTES_MAX = 16 * 1024 * 1024  # of names and properties of one connection: 10,000 producers of 1.6 KiB
KEPT_BYTES_MAX = 256 * 1024 * 1024  # the same of all connections together
CLIENT_OBJECT_BYTES = 3 * 1024  # of a producer or consumer: its object, its places, and a step of what it remembers
WATCH_OBJECT_BYTES = 1024  # of one watch of a layout, a namespace or a topic list
OBJECTS_BYTES_MAX = 256 * 1024 * 1024  # of those of all connections: 87,381 producers and consumers
CLIENT_VERSION_CHARS_MAX = 256  # kept by each connection, shown with each producer; stock clients have 20 to 90
CONNECTION_PRODUCER_NAMES_MAX = 1_000  # generated for exclusive producers: topics, and names of one topic
CONNECTION_PRODUCER_NAMES_BYTES_MAX = 1024 * 1024  # of both: beyond, the topic used longest ago is forgotten
KEPT_NAME_BYTES = 100  # of a name that is kept, beside its characters
CONNECTION_CLOSED_IDS_MAX = 1_000  # producers closed lately whose late sends are ignored
SUBSCRIBE_TRIES_MAX = 10  # topics unloaded under one SUBSCRIBE: more in a row cannot be a coincidence
ALIVE_WAIT_S = 5.0  # how long a rival may take to answer a PING before it counts as dead, as Pulsar

# Turns of the event loop: estimated microseconds of processor time, the same on every machine. The aim is 20 ms a turn.
TURN_COST_MAX = 4_000  # shared by everything that waits for a turn; as much again may come before it, without waiting
TURN_WORK_COST = 10  # of one piece of work that finds nothing to do
QUICK_COMMAND_COST = 5  # of one PING, FLOW or ACK, and of every other command before it is decoded
COMMAND_COST = 40  # of one other command: decoded, handled, answered
SEND_COST = 2  # of one message that a client sends
ANSWER_COST = 1  # of one stored entry: indexed, answered to its producer
PUSH_COST = 1  # of one entry that is sent to a consumer in order
SHARED_PUSH_COST = 3  # of one entry of a Shared subscription: a consumer is chosen, and it is remembered until its ack
KEYED_PUSH_COST = 8  # of one entry of a Key_Shared subscription: its key is read too
WORDS_PER_COST = 4  # of entries that are acknowledged in part: their words are sent with them
COMMAND_PIECE_COST = 4_000  # of one piece of a large command

# Dispatch
DISPATCH_TURN_RUNS_MAX = 16  # runs a dispatcher pushes before others get the loop
BACKLOG_READ_BYTES_MAX = (
    1024 * 1024
)  # one block of a backlog: large enough for hundreds of entries, small enough to hold per reader
BACKLOG_READ_BYTES_MIN = 64 * 1024  # the same where very many readers have one
BACKLOG_READ_ENTRIES_MAX = 1_000
BACKLOG_BLOCKS_BYTES_MAX = 128 * 1024 * 1024  # of all blocks of a broker; then the one read first goes
BACKLOG_READS_MAX = 16  # blocks being read: the disk has one queue, and each may be one message of the largest size
NON_PERSISTENT_RUN_BYTES = 1_024  # objects of one waiting run, which clients can make as small as one message
NON_PERSISTENT_WAITING_BYTES_MAX = 4 * 1024 * 1024  # of one topic, while it delivers to many subscriptions; then drops
REPLAY_TURN_ENTRIES_MAX = 200  # entries handed out again in one turn
GIVEN_BACK_ENTRIES_MAX = 1_000  # of a consumer that left, taken over by the others in one turn: some milliseconds
DISPATCH_RUN_ENTRIES_MAX = 500  # new entries that a Shared or Key_Shared dispatcher takes before it looks at its turn
KEYED_LOOKAHEAD_ENTRIES_MAX = 5_000  # entries that may wait for their key's consumer while other keys flow past them
DELAYED_DUE_MAX = 1_000  # delayed entries released at one ring of the alarm: some milliseconds
DELAY_ALARM_S_MAX = 60.0  # no timer runs longer: after a wall clock was set right nothing is later than this
READ_RETRY_S = 5.0  # a failed read of the backlog is tried again after this
READER_KEPT_S = 60.0  # a reader whose seek disconnected it may come back to its cursor for this long
LOADED_TOPICS_MAX = 200_000  # in memory, less on a small machine; an unused one leaves after a minute
LOADED_TOPIC_BYTES = 16 * 1024  # of one of them with a subscription
LOADED_SUBSCRIPTION_BYTES = 7 * 1024  # of each further subscription of a loaded topic
DEDUP_PRODUCER_BYTES = 400  # of a producer that deduplication remembers, beside its name and for each hash range
LOADED_TOPICS_SHARE = 8  # all of them take at most an eighth of the machine's memory
TOPIC_IDLE_S = 60.0  # an unused topic leaves memory after this; until its next use it is only a record
TRIM_S = 60.0  # retention by time is looked at this often although nothing happens
MAINTENANCE_S = 5.0  # how often trimming, idle topics and deduplication snapshots are looked at
VISIT_S = 3_600.0  # between the beginnings of two walks over topics that are not loaded: space they hold comes back
VISIT_RECORDS_PER_ROUND_MAX = 1_000  # records of such topics read in one round of housekeeping: a page of the store
VISITS_PER_ROUND_MAX = 50  # of them loaded and trimmed: ten a second leave the broker to its clients

# Names
NAME_BYTES_MAX = 1_024  # UTF-8, of each new name: kept in records, paths, snapshots and every statistic
NAME_SUFFIX_BYTES_MAX = 32  # of `-partition-N` and `-seg-N`, which a broker or client adds to a name
TOPIC_NAME_CHARS_MAX = 4_096  # of a name that is parsed: topics of earlier versions open, nothing larger is a topic
NAMES_CACHED_MAX = 10_000  # parsed topic and namespace names: the working set of a busy broker
NAME_CACHED_CHARS_MAX = 256  # longer ones are parsed each time: 10,000 of these take 8 MiB
NAME_CACHED_WIDE_CHARS_MAX = 64  # the same of names that are not ASCII: four bytes a character

# Schemas, tenants, namespaces
SCHEMA_VERSIONS_MAX = 5_000  # of one topic: their index is one metadata record of about 100 bytes a version
TOPIC_BUCKETS_MAX = 10_000  # of one namespace (PIP-157): every listing visits each of them
BUNDLES_MAX = 65_536  # of one namespace: their boundaries are one metadata record
BUNDLES_KEPT_MAX = 64  # different sets of boundaries kept as read: nearly all namespaces have the same ones
PARTITIONS_MAX = 10_000  # made by one call, where the settings do not say less
BUCKETS_LISTED_AT_ONCE_MAX = 8  # first pages read together: hides the round trips, keeps few pages in memory
CREATIONS_AT_ONCE_MAX = 500  # partition records written together: enough to share a sync, few enough to let others in

# REST
HTTP_BODY_BYTES_MAX = 1024 * 1024  # policies and schemas are the largest bodies, and a metadata record is smaller
HTTP_BODY_S = 30.0  # a body that trickles in holds memory and a place
HTTP_HEAD_S = 10.0  # slow request lines and headers hold a connection; normal clients send them together
HTTP_IDLE_S = 30  # a connection between two requests: longer than in clients, so that the client closes first
HTTP_UNREAD_S = 60.0  # a peer that reads nothing of its answer for this long is gone or holds memory on purpose
HTTP_DISCARD_BYTES_MAX = 16 * 1024 * 1024  # of a body that is refused: read and dropped, so that its sender hears why
HTTP_PATH_CHARS_MAX = 16 * 1024  # a topic's name of the largest size, every character of it escaped
HTTP_HEADER_BYTES_MAX = 64 * 1024  # start line and headers: the longest path, twice
HTTP_REQUESTS_MAX = 1_000  # being answered concurrently; more get a 503, probes excepted
HTTP_CONNECTIONS_MAX = 2_000  # idle ones too: beyond, one that is idle is closed for a new one
HTTP_ADDRESS_CONNECTIONS_MAX = 256  # of one address: an idle one of its own is closed for a new one
HTTP_PROBES_MAX = 64  # more connections where all of those are busy, for probes alone: a busy broker is not a dead one
DESCRIPTORS_KEPT_MIN = 64  # open files other than connections: journal, ledgers, metadata, with a reserve
HTTP_GZIP_BYTES_MIN = 1_400  # what fits one packet gains nothing
HTTP_PIECE_BYTES = 32 * 1024  # of a streamed list: between one name and the whole list
HTTP_MESSAGE_BYTES_MAX = 8 * 1024 * 1024  # a message decompressed for REST: more than frames have; a few KB become that
HTTP_METADATA_BYTES_MAX = 32 * 1024  # of a message over REST: it becomes headers, which take up to six times as much
HTTP_ANSWER_HEADERS_BYTES_MAX = 64 * 1024  # of one answer: clients read no more; larger ones become a 413
HTTP_MESSAGES_BYTES_MAX = 64 * 1024 * 1024  # of messages in answers that are being sent; the next one gets a 503
HTTP_BODIES_BYTES_MAX = 128 * 1024 * 1024  # of requests that arrive or are being answered; the next one gets a 503
HTTP_ANSWERS_BYTES_MAX = 128 * 1024 * 1024  # of other large answers that are being sent: statistics, layouts
HTTP_ANSWER_BYTES_MAX = 64 * 1024 * 1024  # of one of them: our admin client reads no larger one; the next is a 413
HTTP_ANSWER_COUNTED_BYTES_MIN = 64 * 1024  # a smaller answer is not counted: 1,000 requests of it are 64 MiB
HTTP_STREAMS_MAX = 32  # lists and metrics that are being streamed: each holds a page of names
HTTP_STOP_S = 5.0  # how long stopping waits for requests in flight
RATE_INTERVAL_S = 10.0  # minimum interval of rates: shorter ones only show the noise of a batch
TOPIC_SUMMARIES_MAX = 200  # topics that one request of counts may open: each reads its record and its last index
CONNECTIONS_SHOWN_MAX = 10_000  # clients in one answer of REST: some 200 bytes each
TOPICS_PAGE_MAX = 1_000  # topics in one page of a listing where `after` is given without a `limit`
ORPHAN_SUSPECT_S = 60.0  # a ledger without a record is looked at again after this: longer than any roll takes
ORPHANS_LISTED_AT_ONCE_MAX = 1_000  # ids of ledgers in one page of the sweep: a store may hold millions
ORPHAN_SWEEP_S = 3_600.0  # how often orphans are looked for when none is suspected

# Clients
CLIENT_CONNECT_S = 10.0  # TCP and CONNECTED, as stock clients: a host that does not answer is tried again
CLIENT_CLOSE_S = 5.0  # for the last bytes to leave when a client closes: then the connection is cut
CLIENT_OPERATION_S = 30.0  # any request of a client, and the first attach of a producer or consumer
CLIENT_BACKOFF_S_MIN, CLIENT_BACKOFF_S_MAX = 0.1, 60.0  # attaching again, doubling, as stock clients
CLIENT_RECONNECT_S_MAX = 2.0  # unless the broker limits the rate: the topics of a dead owner have another one soon
CLIENT_REFUSED_S = 5.0  # a first connection that every address refuses: long enough for a broker that starts
CLIENT_OUTAGE_LOG_S = 60.0  # between two warnings of one outage: an attempt every few seconds is not worth a line each
CLIENT_OUTAGES_MAX = 1_000  # addresses that do not answer, remembered by one client: more brokers than a cluster has
CLIENT_FRAME_BYTES_MAX = 128 * 1024 * 1024  # one inbound frame: topic lists of large namespaces; more is nonsense
CLIENT_REDIRECTS_MAX = 20  # of one lookup, as stock clients: more is brokers pointing at each other
CLIENT_READ_BYTES_SMALL = 120 * 1024  # room for one read: from 128 KiB on the allocator maps new pages, 12 us a read
CLIENT_READ_BYTES_LARGE = 1024 * 1024  # where reads come back full: batches are large, and joining pieces costs more
CLIENT_WRITE_BYTES_HIGH = 1024 * 1024  # unsent to a broker: then producers wait
CLIENT_WRITE_JOIN_BYTES = 64 * 1024  # small frames of one turn of the loop are one write up to about this
CLIENT_REQUESTS_MAX = 5_000  # waiting on one connection, as Pulsar's client for lookups; the next is refused as Busy

# Consumers
RECEIVER_QUEUE_MESSAGES = 1_000  # asked for ahead of the application, as stock clients
FLOW_PERMITS_MAX = 2**31 - 1  # in one FLOW: Java's brokers read a larger number as negative
RECEIVER_QUEUE_MESSAGES_MAX = 100_000  # of one topic: more is memory without speed
RECEIVER_WINDOW_MESSAGES_FIRST = (
    128  # asked for before the size of messages is known: large ones must not come in heaps
)
INBOX_BYTES_MAX = (
    64 * 1024 * 1024
)  # received and not taken yet, over all topics of a consumer; then no more is asked for
ACK_GROUP_S = 0.1  # acknowledgements are sent together, at most this late, as stock clients
ACK_GROUP_IDS_MAX = 1_000  # or when this many wait
ACK_BATCHES_MAX = 100_000  # batches acknowledged in part whose rest is remembered; the oldest is redelivered whole
CHUNKED_PENDING_MAX = 100  # chunked messages half received by one consumer; more are deferred and asked for again
CHUNKED_BYTES_MAX = (
    256 * 1024 * 1024
)  # of all of them together; one alone may be larger, and producers send none that is
CHUNKED_KEYED_PENDING_MAX = 10_000  # the same where consumers share by key: more would break order, so they end
CHUNKED_KEYED_BYTES_MAX = 1024 * 1024 * 1024  # of all of them together there: four of the largest that producers send
CHUNKED_DEFERRED_MAX = 100_000  # chunks of deferred messages whose positions are kept; then all is asked for again
CHUNKED_EXPIRE_S = 60.0  # a message whose next chunk does not come for this long is given up, as stock clients
CHUNKED_IDS_MAX = 10_000  # chunked messages out with the application whose chunks are remembered for an ack by id
NACK_DELAY_S = 60.0  # before a negatively acknowledged message is asked for again, as stock clients
NACK_STEP_S = 0.01  # those due within one step are asked for together
NACK_PENDING_MAX = 1_000_000  # negatively acknowledged and not yet due
REDELIVER_IDS_MAX = 1_000  # in one request for redelivery, as stock clients
DISCOVERY_S = 60.0  # how often patterns and partition counts are looked at again, as stock clients
PAYLOAD_BYTES_MAX = 256 * 1024 * 1024  # one entry decompressed: a larger claim of a peer is not allocated
AVRO_DEPTH_MAX = 64  # levels of an Avro definition: decoders recurse in C, which ends the process beyond some thousands
WRITER_SCHEMAS_MAX = 1_000  # of other producers, parsed and kept by one consumer; the oldest goes
DEAD_LETTERS_MAX = 100  # in flight to a dead-letter or retry topic, per consumer
DOOMED_MAX = 10_000  # messages of one consumer that could not be buried yet and are not shown again
LAST_CHANCES_MAX = 10_000  # entries handed out for the last time: remembered for a timeout, or a refusal by id
NACK_QUEUED_S_MAX = 30.0  # a refused batch waits for the rest of it to be handed out while the application goes on
NACK_QUEUED_STEP_S = 0.05  # and is looked at this often
SUBSCRIBES_AT_ONCE_MAX = 50  # topics of one consumer being attached at the same time
KILL_ROUNDS_MAX = 200  # of cancelling a killed broker's tasks, 10 ms each: what still runs then is a bug
TESTING_WAIT_S = 60.0  # for a broker in a test's process to start, stop or answer: a bound for what takes milliseconds
TESTING_PORT_S = (
    5.0  # a restarted broker waits this long for its old port: a client that tries to come back may sit on it
)
TESTING_PAUSE_S = 600.0  # a paused broker goes on by itself after this long: a test that forgot it ends
TESTING_POLL_S = 0.02  # between two looks at a backlog that is waited for
TESTING_PROBE_S = 0.01  # between two looks at the processor time of a loop: a turn is measured as exactly as that
TESTING_TURN_S_MAX = 0.1  # of processor time in one turn of a broker's loop, in our own tests; the aim is 0.02
TESTING_PORT_STEP_S = 0.05  # between two attempts
METADATA_MEMORY_HEARTBEATS = 4  # of a session in memory within its timeout: one that comes late does not end it
TESTING_SESSION_S = 3.0  # of a broker in a cluster of a test: short, so that a test sees a take-over soon
TESTING_BROKERS_MAX = 16  # of one cluster in a process: each is a thread with a loop
TESTING_MEMORY_BYTES_MIN = 512 * 1024 * 1024  # free on a memory file system before data is put there

# The admin client
ADMIN_TIMEOUT_S = 60.0  # one answer, as Pulsar's admin: forced deletions of large namespaces take their time
ADMIN_CONNECT_S = 10.0  # a host that does not take a connection by then will not
ADMIN_RETRIES_MAX = 3  # of calls that change nothing, against a broker that restarts or is not ready
ADMIN_RETRY_S = 0.1  # before the first of them, then doubling: under a second in all, a person waits
ADMIN_ANSWER_BYTES_MAX = 64 * 1024 * 1024  # of one answer, inflated: statistics and lists of a large broker
ADMIN_CONNECTIONS_MAX = 20  # of one admin client to its broker; more calls wait
CLIENT_PENDING_BYTES_MAX = 64 * 1024 * 1024  # published and not yet answered, of one client: then senders wait
CLIENT_PENDING_MESSAGES_MAX = 50_000  # the same in messages: what stock clients allow over all partitions
CLIENT_SEND_S = 30.0  # a message without an answer for this long may or may not be stored, as stock clients
CLIENT_BATCH_MESSAGES_MAX = 1_000  # as stock clients
CLIENT_BATCH_BYTES_MAX = 128 * 1024  # as stock clients
CLIENT_BATCH_DELAY_S = 0.001  # how long a batch may wait to grow while another is in flight, as Java's client
CLIENT_ROUND_ENTRIES_A_DELAY = 3  # written in one round, they keep the next one away for one batch delay
CLIENT_ROUND_DELAYS_MAX = 10  # for any number of entries: maximum wait, in delays, of an entry without a waiting caller
CLIENT_PARTITIONS_S = 60.0  # how often the number of partitions is read again, as stock clients
CLIENT_KEY_BATCHES_MAX = 1_000  # open batches of a key-based producer: one a key; more keys close them all
DEMO_START_S = 120.0  # for the demo's broker to say that it is ready
DEMO_STOP_S = 10.0  # for it to stop in order before it is killed
DEMO_DOWN_S = 0.5  # how long the demo leaves its broker dead: long enough to be seen
DEMO_DRAIN_S = 30.0  # after this time without an arrival the demo stops waiting for missing messages
DEMO_BACKLOG_MAX = 20_000  # backlog of the slowest subscription: the demo drains it at the end
DEMO_IN_FLIGHT_MAX = 3_000  # messages without an answer: a dead broker's wait for it, and the rest is not sent at all
DEMO_RESUME_S = 20.0  # after a restart the demo goes on when messages flow again, or after this
DEMO_TICK_S = 0.02  # producers send the messages that became due since the last tick
DEMO_LOOK_S = 0.3  # between two reads of the rows that the demo's pipeline has written
DEMO_QUERY_S = 300.0  # for its query to write something: a loaded machine starts Spark in a minute
DEMO_QUERY_STARTS_MAX = 10  # of a query that ends by itself: Spark gives its Python processes ten seconds to start
DEMO_MOMENT_S = 5.0  # the demo waits so long for a batch to be under way, to kill the query in the middle of it
CLIENT_MAILBOX_MESSAGES_MAX = 10_000  # in flight to the loop thread of a blocking client: then the caller waits
CLIENT_TAKEN_MESSAGES_MAX = 1_000  # taken together from the loop thread: one exchange costs as much as 30 messages
TOPICS_GONE_MANY = 1000  # topics that have left before freed memory is given back: some tens of megabytes
COLLECT_AFTER_OBJECTS = 50_000  # new ones before the collector looks: at 700 a plan of 1,000 segments woke it 14 times
DEPARTURE_LOOKS_MAX = 12  # looks at topics that still leave before memory is given back all the same: a minute

# Scalable topics
SEGMENT_BUCKETS_MAX = 1_024  # entry buckets of one segment, as newer Pulsar
RECORD_BYTES_MAX = 512 * 1024  # of a scalable topic: half of what ZooKeeper takes, checked before anything is sealed
RECORD_PLAIN_BYTES_MAX = 64 * 1024  # a longer one is stored compressed
RECORD_OPEN_BYTES_MAX = 16 * 1024 * 1024  # of a compressed record: the history of one topic in a broker's memory
SEGMENTS_ACTIVE_MAX = 64  # of one topic by default, as Pulsar; the record holds about 20,000 in all
RECORDS_DECODED_MAX = 64  # records of scalable topics kept as read, a few MB each at most with a full history
RECORDS_DECODED_BYTES_MAX = 32 * 1024 * 1024  # of their text, decompressed; their objects take three times that
SEGMENTS_SCALED_MAX = 1_024  # active ones that an automatic split or `topic scale` may reach: each is a topic
SCALE_HOLD_S_MAX = 30 * 86_400.0  # a hold of more segments: longer is a policy with a minimum
SPLIT_PARTS_MAX = 8  # children of one automatic split: more would make a spike of a second into a wide layout
SPLIT_WIDTH_MIN = 16  # hashes of each child of a split by load; only the slot of a hot key gets a narrower one
SKETCH_CELLS_MAX = 64  # equal parts of a segment's range in its key histogram: 512 bytes
SKETCH_SLOTS_MAX = 32  # hash slots in the heavy-hitter sketch of a segment: finds each slot above 3 % of the load
SKETCH_KEY_CHARS_MAX = 64  # of a sampled key that is shown: long enough to recognise it
SKETCH_BATCH_BYTES_MAX = 32 * 1024  # a larger compressed batch is not decompressed for a sample: 0.1 ms
SKETCH_BATCH_KEYS_MAX = 8  # keys that a sample reads of one batch: 2 us each
SKETCH_STRIDE_SAMPLES = 500  # samples in one interval after which the distance between them doubles
LOAD_SUBSCRIPTIONS_MAX = 100  # subscriptions of a segment with measured backlogs: a lag may need a read
SKETCH_SAMPLES_PER_S = 50.0  # of one segment: 500 in a report interval show a share of 50 % with an error of 5 %
LOAD_INTERVAL_S_MIN = 5.0  # rates of a shorter interval decide nothing: one burst would be a trend (H-A13)
AUTOSCALE_SOON_S = 1.0  # from a new consumer or a changed policy to an evaluation: several often come together
DECISIONS_KEPT_MAX = 200  # automatic decisions that a leader remembers of one topic; the oldest goes
DECISION_TOPICS_MAX = 1_000  # topics with remembered decisions on a broker: the one evaluated longest ago goes
HISTORY_RESHAPES_MAX = 200  # kept in the record: about 30 KiB; the oldest goes
PRUNED_AT_ONCE_MAX = 256  # segments that one round deletes: the record names them until their topics are gone
SEALED_SHOWN_MAX = 100  # with more sealed segments, those that never had a message go after some minutes
PRUNE_S = 60.0  # between two looks of a leader for segments that hold no message any more, as Pulsar
CONSUMER_GRACE_S = 60.0  # a stream consumer's segments wait this long for it to come back, as Pulsar
LEADER_PROOF_S = 3.0  # how often an idle leader reads its term again: bounds how long a deaf one is believed (H-B11)
LEADER_IDLE_S = 60.0  # an unused leader releases its lock: its proofs would cost a read every few seconds
TERM_WAIT_S = 15.0  # a request waits this long for a leader: longer than a lost session's lock lives
FENCED_PAUSE_S_MIN = 1.0  # before a leader whose terms are refused one after the other tries again, doubling
FENCED_PAUSE_S_MAX = 60.0  # the topic has no leader in this time: an operator has to look at it anyway
FENCED_CALM_S = 30.0  # a term that is refused so long after the pause before it is refused for another reason
SHARE_ASK_S = 10.0  # one question after a stream consumer's share waits this long at the leader of its topic
VISITOR_SILENT_S = 10.0  # a broker that has not asked for so long has lost its consumer: the grace period begins
EXCLUSIVE_RETURN_S = 15.0  # an exclusive producer has this long to come from a sealed segment to its children (H-E11)
OPERATION_WAIT_S = 60.0  # a caller waits this long for a reshape, a deletion or a subscription; it goes on without it
OPERATIONS_KEPT_MAX = 1_000  # ended operations that a broker can still report; the oldest goes
CALL_RETRY_S_MIN = 0.05  # after a call whose outcome is unknown, doubling
CALL_RETRY_S_MAX = 2.0
CALLS_AT_ONCE_MAX = 32  # to segment owners, of one operation: a topic may have thousands of segments
ATTENDANCE_WAIT_S = 5.0  # for one owner when an operator waits for the subscriptions of a topic
PEER_BODY_BYTES_MAX = 32 * 1024 * 1024  # of a call to another broker: what twenty merged parents know of producers
CLUSTER_SECRET_CHARS_MIN = 16  # of the secret that brokers share: 64 bits cannot be guessed over REST
PEER_ANSWER_BYTES_MAX = 32 * 1024 * 1024  # of a REST answer for another broker: with base64 it fits its 64 MiB
PEER_CALL_S = 45.0  # one call to another broker: longer than the longest question waits for its answer
PEER_CONNECTIONS_MAX = 20  # of one broker to another, for calls that are answered without a wait; more calls wait
PEER_WAITS_MAX = 10_000  # requests of one broker that wait at another: the list of all is a body of a few MB
PEER_CALLERS_MAX = 1_000  # processes that wait at one broker: brokers, and their earlier processes for a while
PEER_WAIT_CALLS_MAX = 2  # in flight to one broker: the newest, and the one before it until it is answered
PEER_WAIT_PAUSE_S = 0.005  # between two calls with changes: the waits of one operation share them
PEER_WAIT_REPLACE_S = 1.0  # a third call waits so long for the answer to the first: a connection may be stuck
PEER_WAIT_CALL_S = 20.0  # one call for all waits is answered after this time without an event
PEER_WAIT_LOST_S = 30.0  # a call without an answer for so long is lost, and sent again
PEER_WAIT_GRACE_S = 5.0  # a request ends this long after its own time, if the other broker does not answer
PEER_WAIT_AWAY_S = 30.0  # waits of a caller without a call end: it has ended, or sends all of them again
DRAINED_ASK_S = 30.0  # one question after a drained or released segment waits this long at its owner
READ_AHEAD_WAIT_S = 0.1  # a parent that is acknowledged sooner is not read ahead of: its children follow anyway
READ_AHEAD_LEAVE_S = 2.0  # a consumer that read ahead and has left closes its segments in this time, or is detached
EARLY_ACKS_WAIT_S = 5.0  # a close waits this long until early acknowledgements are on disk
EARLY_ACKS_MAX = 100_000  # single acknowledgements in a segment that is read early; messages beyond are delivered again
EARLY_ACK_BYTES = 250  # of one of them: a position and its list of words
EARLY_ACK_WORD_BYTES = 40  # of one of their words: a number of 64 bits and its place
EARLY_ACK_WORDS_MAX = 500_000  # 64 messages each: of batches acknowledged in part there, 40 bytes a word in memory
SWEEP_S = 30.0  # between checks of all scalable topics for a reshape or deletion without a leader (H-B5)
RECORDS_READ_AT_ONCE_MAX = 64  # of a list of records: their reads share round trips, and fit in memory
WALK_REST_S = 600.0  # a topic that needs nothing is read again after this time: events of its changes are trusted less
WALK_RESTING_MAX = 1_000_000  # topics known to need nothing: 100 MB of paths; one more is read by every sweep
TOMBSTONE_S = 7 * 86_400.0  # a deleted scalable topic's counters stay so long: nothing of its first life lives longer
POKE_S = 2.0  # after this time, a broker that serves a watch takes over an intent without a leader
SUBSCRIPTIONS_MAX = 1_000  # of one scalable topic: every reshape lists them and makes that many cursors a child

# Several brokers on one store
OWNERSHIP_WAIT_S = 10.0  # for the store to answer a lookup or a load: a client asks again long before its timeout
OWNERSHIP_TRIES_MAX = 5  # rounds of one acquisition: a bundle that changes hands more often is asked for again
SESSION_ATTEMPT_S_MIN, SESSION_ATTEMPT_S_MAX = 1.0, 60.0  # between attempts to get another session, doubling
OPEN_TRIES_MAX = 5  # of a load that another owner's last writes got in the way of: each of them can do so once or twice
UNLOADS_AT_ONCE_MAX = 100  # topics unloaded or verified together: their last writes share syncs, reads a round trip

# Stream consumers of scalable topics
FOLLOW_BACKOFF_S_MAX = 30.0  # attaching to a segment that another consumer still holds, doubling, as Pulsar's V5 client
BUCKETS_FILLED_MAX = 8  # full entries that one segment queue gathers at most before it writes them, a bucket each
BUCKET_WINDOW_S = 1.0  # messages that came within this may change places for the sake of their entry buckets
REVOKED_DRAIN_S = 30.0  # to acknowledge what one has of a segment taken away; then its next reader gets it again
HELD_BACK_WARN_S_MIN = 1.0  # until the first warning that unacknowledged messages keep the next segments waiting
HELD_BACK_WARN_S = 10.0  # between warnings that unacknowledged messages keep the next segments waiting
LAYOUT_SEEK_S = 1.0  # a producer met a seal without the next layout: then it asks, doubling
STREAM_LEAVE_S = 15.0  # a leaving consumer waits for a controller that is away: else its segments wait a grace period
STREAM_HURRY_S = 0.5  # the same if the client ends because of an error: its user does not want to wait
CACHED_KEY_CHARS_MAX = 256  # longer keys are hashed and encoded each time: the cache of a producer stays small
ROUTES_CACHED_MAX = 10_000  # keys whose segment a producer remembers: about 2 MiB; then all are forgotten
END_ASK_S = 2.0  # a sealed segment is acknowledged completely, but its end is unknown: then its owner is asked

# Completion on the command line
COMPLETION_NETWORK_S = 0.3  # for all questions of one press of TAB together: nothing is better than late
COMPLETION_FRESH_S = 60.0  # names are remembered for so long
COMPLETION_SILENT_S = 5.0  # a broker that did not answer is not asked again for so long: typing goes on
COMPLETION_FILES_MAX = 256  # remembered answers; then the oldest go

# Reading ranges of entries
RANGE_BYTES_MAX = 8 * 1024 * 1024  # in flight to one reader: a task of Spark has little memory, and many run together
RANGE_WINDOW_FIRST = 1000  # messages asked for before their size is known
RANGE_WINDOW_MAX = 200_000  # however small they are
RANGE_SILENT_S = 120.0  # stored entries do not arrive for this time: then the read fails, and may be retried

# Spark
SPARK_OFFSET_BYTES_MAX = 1024 * 1024  # of one offset: some 1,500 segments take 60 KiB; a longer one is invalid
SPARK_PAYLOAD_BYTES_MAX = 64 * 1024 * 1024  # one entry decompressed in a Spark task; executors have little memory
SPARK_BATCH_BYTES = 4 * 1024 * 1024  # of messages in one Arrow batch, then it is handed on
SPARK_BATCH_ROWS = 64 * 1024  # or this many rows
SPARK_TRIGGER_DELAY_S = 900.0  # a batch below minMessagesPerTrigger waits no longer, as Spark's own Kafka source
SPARK_PARTITIONS_FRESH_S = 5.0  # a query asks for the number of partitions again: added ones are seen so soon
SPARK_ASKED_AT_ONCE_MAX = 32  # segments whose end is asked for together, of a server that does not plan
SPARK_MARKS_MAX = 64  # places in one segment where a batch may end, on a server that does not plan
SPARK_HOLD_ALIVE_S = 60.0  # a query without progress renews its hold at this interval, because holds expire
SPARK_PARTITIONS_MAX = 1_024  # tasks that minPartitions may ask for: their places are in every offset
SPARK_TARGETS_MAX = 256  # topics that the rows of one batch name: each has a stage in every task, and a commit
SPARK_TARGETS_AT_ONCE_MAX = 32  # of those, calls about stages at a time: each waits for the broker's disk
SPARK_TOPICS_MAX = 1_000  # of one query: each has an offset, a hold and a question for every batch
SPARK_REACH_S = 5.0  # load() waits so long for a broker: a person sits before it
SPARK_CLAIM_S = 5.0  # a query waits so long for the run before it to end: its process outlives it for a moment
SPARK_CLAIM_ASK_S = 0.1  # between two checks in that time
SPARK_LOOK_S = 30.0  # for a Java or a Python to say its version: a loaded machine takes seconds
SPARK_IDLE_S = 0.2  # a query that has nothing to read waits so long for news: Spark would ask every 11 ms
SPARK_CLOCKS_DIFFER_S = 300.0  # filters by time look so much further: producers' clocks, and batches that waited
SPARK_IDLE_ASK_S = 0.02  # between two checks in that time

# Staged publishing
SINK_PRODUCERS = 4  # stages of a batch published concurrently; topics remember each of these producers
SINK_STAGES_MAX = 4_096  # of one sink: its record stays below 500 KiB
SINK_RUNS_MAX = 8  # runs of a query that a sink remembers, to distinguish concurrent from consecutive runs
BATCHES_PUBLISHING_MAX = 8  # of one sink; then a commit waits: commits must not run ahead of the published batches
SINK_NAME_BYTES_MAX = 512  # of a sink: query ids are 36
STAGE_LEASE_S = 3_600.0  # a stage whose task and driver are silent for so long is dropped; tasks renew it every quarter
SINK_TRIES_MAX = 64  # of one change of a sink's record: tasks of a batch begin and seal at the same time
SINK_SWEEP_S = 30.0  # between checks of all sinks for unpublished batches and expired leases
SINK_ONCE_S = 86_400.0  # the sink of a single job is forgotten so long after its rows are published: commits come late
COMMIT_WAIT_S = 20.0  # a commit waits for room among the batches being published; then the client must retry
STAGE_SAVED_MESSAGES = 20_000  # published between two notes of how far a stage is: read again after a crash
STAGE_READ_MESSAGES = 500  # of a stage taken in one turn of the loop: some milliseconds, while others wait
STAGE_CUT_MESSAGES = 4_000  # of a stage re-batched in one turn of the loop: some ms, and entries of a good size
STAGE_CUT_BYTES = 1024 * 1024  # or so much, where messages are large
STAGE_READ_S = 20.0  # for the next existing message of a stage: then its reader restarts
CLIENT_STAGE_S = 600.0  # a call about a stage is repeated for so long: a Spark job had better wait than fail
CLIENT_STAGE_ASK_S = 0.02  # whether all is published: asked after so long, then less and less often
CLIENT_STAGE_RENEWALS = 4  # of a lease while its stage is written
SPARK_SEQUENCE_ROW_BITS = 32  # of a sequence id: the row in its task's batch; the rest is the number of the batch
SPARK_STAGE_WRITE_S = 600.0  # a row waits for room: a task had better wait for its broker than fail
SPARK_SHEAVES_BYTES_MAX = 32 * 1024 * 1024  # of an Arrow batch encoded in one step, during which copies of it exist
SPARK_SCHEMA_NODES_MAX = 20_000  # types within a registered schema, repeated ones too: a few lines can mean billions
SPARK_SHEAF_ROWS_MIN = 16  # rows for each destination, on average: fewer are gathered one by one, into larger entries
SPARK_EMPTY_ITEMS_MAX = 1 << 20  # of lists whose items take no bytes, in rows read together: a few bytes claim billions

# Lag
LAG_INTERVALS_MAX = 256  # acknowledged intervals that are counted exactly: each may read one record of the index
LAG_SCRAPE_S = 2.0  # a scrape measures lags for so long; those that are left are shown as they were measured before
LAG_MEASURED_PER_TURN = 100  # before a scrape lets others run
UNLOADED_SAMPLES_MAX = 50_000  # topics out of memory whose backlog metrics show: about 600 bytes each
UNLOADED_TOTALS_MAX = 10_000  # topics out of memory without a backlog whose counters go on when they are loaded again
LAYOUT_SAMPLES_MAX = 20_000  # scalable topics whose segments metrics show
RESHAPES_COUNTED_MAX = 20_000  # topics whose splits and merges this broker counts
DISK_FLOOR_SHARE = 10  # of a file system at most a tenth stays free: small ones are usable too
DISK_RESERVE_SHARE = 3  # of the floor is kept back in a file: a start on a full disk may copy a journal file of 64 MiB
DISK_LOOK_S = 1.0  # between two measurements of the free space while little is written
DISK_LOOK_SHARE = 8  # an eighth of the floor written since the last measurement is reason for the next one
DISK_LOOK_NEAR_S = 0.1  # the same where less than four floors are free
DISK_WARN_PERCENT = 80  # used: time to do something about it, where less than the next is free
DISK_WARN_FLOORS = 20  # floors: 5 GiB by default
LOOP_LAG_S = 1.0  # between two looks at how late the event loop is
LOOP_LAG_KEPT = 60  # of them, for the longest of the last minute
LAG_TRIES_MAX = 8  # of one measurement while ledgers are trimmed under it

# PLAN and HOLD
PLAN_MARKS_MAX = 8_192  # in one answer, shared by its segments: some 200 KiB, and a planner looks at each
PLAN_SEGMENT_MARKS_MAX = 128  # of one segment: a batch of a hundredth of the limit can still be cut
PLAN_SEGMENT_MARKS_MIN = 4  # however many segments are asked about
PLAN_FINE_RECORDS_MAX = 4  # where fewer records than this reach the limit, marks stand between their entries too
PLAN_FINE_BYTES = 1024 * 1024  # read for that of one segment
PLAN_FINE_ENTRIES_MAX = 4_096
CLIENT_LAYOUTS_KEPT_MAX = 64  # of the topics that a client plans reads of: a thousand segments take about 1 MiB
HOLD_EXPIRES_S = 7 * 86_400  # where the reader does not say: a query that was stopped for a week end finds its messages
GROUP_ALIVE_S_MIN = 1.0  # members of a group renew it at this interval, or three times in the life of its hold
GROUP_ALIVE_S_MAX = 600.0
HOLD_EXPIRES_S_MAX = 400 * 86_400  # a longer hold belongs to a topic without readers: use retention instead
HOLD_NOTICE_S_MAX = 86_400.0  # the end of a hold is announced a tenth of its life before, a day at most
HOLD_EXPIRED_KEPT_S = 7 * 86_400.0  # one that is over is still shown for so long, then forgotten
HOLD_LOOK_S = 30.0  # between looks at all holds: their lag, and their end
HOLD_SOON_S = 1.0  # between looks at those of one topic whose end is near
HOLD_LATE_S = 0.05  # such a look comes a little late rather than a little early: it would find nothing due
HOLD_TRIES_MAX = 64  # of one change of a hold's record: two queries of one name are a mistake, not a load
PROPERTIES_TRIES_MAX = 64  # of writing a subscription's properties beside what its leader writes
HOLD_ASK_S = 5.0  # timeout for asking owners about a position; a reader that moves is not delayed longer
HOLD_NAME_CHARS_MAX = 1_024  # of a hold and of its owner's words: they are shown, logged and labels of metrics
PLAN_STAMPS_MAX = 256  # publish times at marks that a topic remembers: reading them again would cost the disk
SEEK_SKEW_MS_MAX = 10 * 60 * 1000  # by so much two producers' clocks may differ before a seek by time misses messages
