"""New entries meet permits: one file a way of handing out.

`single` serves Exclusive and Failover, `shared` serves Shared, `key_shared` serves Key_Shared; `entry_source` fetches
entries for all of them, from memory at the tail and in blocks from files behind it; `push` writes the frames. They
choose with the pure files of `topic/` and never touch an entry's payload.
"""
