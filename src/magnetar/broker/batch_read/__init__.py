"""Reads in batches: plans that say how far a topic can be read, and holds that keep messages for a reader. Decisions
are in `scalable/machines`; these modules ask owners and write records.
"""
