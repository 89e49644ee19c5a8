"""Scalable topics on the broker: the record, and the machines that decide about it.

The modules that decide (record, reshape, takeover, subscriptions, deletion, drain, assign, sessions) take events and
return effects; they never wait, and tests/model drives them through every interleaving. They trust the store for
compare-and-set and nothing else: not the lock, not a clock, and not that a failed call had no effect. Hazards are cited
by their ids in docs/HAZARDS.md.
"""
