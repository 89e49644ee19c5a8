"""Scalable topics on the broker: the record, and who decides what about it.

The files that decide (record, reshape, takeover, subscriptions, deletion, drain, assign, sessions) take events and
return effects; they wait for nobody and are driven through every interleaving by tests/model. They trust the store for
compare-and-set and nothing else: not the lock, not a clock, not that a call that failed did not happen. Hazards
are cited by their ids in docs/HAZARDS.md.
"""
