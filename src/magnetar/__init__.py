"""Magnetar: topics that split and merge under live traffic, on Apache Pulsar's wire protocol.

This module holds the version and nothing else, so that importing it costs nothing: every room is imported by whoever
needs it.
"""

__version__ = "0.1.0.dev0"
