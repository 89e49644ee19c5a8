"""Consumers of all scalable topics of a namespace: a watch follows the list of topics, and one consumer is open for
each topic that matches.
"""
