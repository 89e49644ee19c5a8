"""Staged publishing on this broker: stages are stored as topics, and a committed stage is published to its target with
new batches.

The decisions are in `staged/`.
"""
