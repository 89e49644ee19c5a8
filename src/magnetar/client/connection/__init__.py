"""Connections to brokers: lookup, pool, requests and replies, reconnection and back-off. Producers and consumers
register as listeners; this package does not interpret messages.
"""
