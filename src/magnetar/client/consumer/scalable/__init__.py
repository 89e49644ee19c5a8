"""Consumers of scalable topics: streams in key order, queues, checkpoints and whole namespaces. Each keeps one topic
consumer for each segment that it reads.
"""
