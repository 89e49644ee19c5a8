"""Reads in batches: plans with the readable ranges of a topic, and holds that keep messages for a reader.

Decisions are in `scalable/machines`; these modules call owners and write records.
"""
