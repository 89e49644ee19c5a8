"""Ledgers: append-only lists of entries that survive crashes, and the cursors that store acknowledgements.

`store.py` is the contract that engines keep; `managed.py` chains ledgers into one endless list; `cursor.py` remembers
acknowledgements. It does not know what a message is (an entry is bytes and a count) and trusts the metadata store for
every fact about who owns what.
"""
