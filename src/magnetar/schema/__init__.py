"""Schemas of topics: which versions there are, and their bodies.

A body is bytes that the clients understand; whether a new one fits those before it is decided elsewhere. Kept apart
from the topic: partitions and segments share the schemas of the topic they belong to, and deleting one of them leaves
them alone.
"""
