"""Staged publishing, the exactly-once end of a pipeline: a batch is published as a whole or not at all.

`staged.py` decides, `staged/codec.py` knows the bytes of a sink's record, `records.py` keeps it, `sinks.py` answers
clients, `leader.py` publishes. The package does not know how messages travel: the broker passes in a way to publish a
stage. It trusts compare-and-set on one record, and the deduplication of the topic that is published to.
"""
