"""Cursors: what a subscription has acknowledged, as a mark, ranges and bits inside batches, and how it is stored. A
cursor never reads entries; it answers what is left.
"""
