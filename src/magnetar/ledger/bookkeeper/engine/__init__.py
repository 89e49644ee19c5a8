"""The ledger store over the client of BookKeeper: runs of entries in, stored with their counts, and runs out.

It refuses entries larger than a frame of the bookies, and guesses no counts: entries of another program are counted by
reading them. It trusts the client for copies, fencing, recovery and digests, and its own counts in stored entries.
"""
