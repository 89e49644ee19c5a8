"""Deduplication: the highest sequence id of each producer and key range, its byte form and its snapshots. It decides
whether a message is stored already.
"""
