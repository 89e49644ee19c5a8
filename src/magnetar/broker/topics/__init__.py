"""Topics in memory: loading, unloading, bundle ownership, effective settings, schemas and retention of unloaded topics.

The topic itself is in `topic/`.
"""
