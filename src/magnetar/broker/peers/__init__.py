"""Calls between brokers: their transport, their authentication, and the handlers that act on the topics of this node.
The requests themselves are defined in `cluster/calls/topic_calls.py`.
"""
