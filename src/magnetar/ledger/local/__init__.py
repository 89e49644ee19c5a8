"""The ledger engine of one machine: every ledger shares one journal of preallocated segments with group commit.

`records` and `segment` know the bytes, `index` where an entry lies, `scan` reads a journal back, `journal_files`
touches the files (on the lane only), `journal` batches on the loop, `engine` keeps the contract of `ledger/store.py`
above them. It trusts the metadata store for which ledgers exist, and one process per directory, which it makes sure of
with a lock; it refuses to go on after a failed write or sync.
"""
