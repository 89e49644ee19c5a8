"""Schemas of topics: their versions and bodies.

A body is opaque bytes for the clients; its compatibility with earlier versions is decided elsewhere. Schemas are stored
separately from topics: partitions and segments share the schemas of their topic, and the deletion of one of them keeps
the schemas.
"""
