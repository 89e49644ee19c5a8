"""Tasks of a batch: entries to Arrow columns, filtered and typed, without an object for each message. A task reads
exactly the ranges that the planner gave it.
"""
