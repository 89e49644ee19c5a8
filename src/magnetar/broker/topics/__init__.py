"""Topics in memory: loading, unloading, bundle ownership, effective settings, schemas and retention of topics that are
not loaded. The topic itself is in `topic/`.
"""
