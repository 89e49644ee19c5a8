"""Cursors: the acknowledgements of a subscription, as a mark, ranges and bits inside batches, and their storage. A
cursor never reads entries; it answers which are left.
"""
