"""Producers of a topic: who may publish, in which access mode, and the path of a run from the connection to the ledger
and back as receipts.
"""
