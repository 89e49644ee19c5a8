"""Automatic scaling of the topics that this broker leads or minds: collects loads, evaluates, and reshapes.

The decisions are in `layout/autoscale`. This package keeps the decisions of each topic in memory, a bounded number; an
operation that was carried out is in the record of the topic with its reason. It trusts no earlier measurement for a
change: the machine of the reshape checks parents and bounds again.
"""
