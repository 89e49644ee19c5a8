"""What is published all at once or not at all: staged publishing, the exactly-once end of a pipeline.

`staged.py` decides, `staged/codec.py` knows the bytes of a sink's record, `records.py` keeps it, `sinks.py` answers
clients, `leader.py` publishes. Refuses to know how messages travel: whoever makes the room hands in a way to publish a
stage. Trusts compare-and-set on one record, and the deduplication of the topic that is published to.
"""
