"""Queue consumers: every message goes to one consumer of the subscription, in no order. The consumer attaches to all
segments, active and sealed, until they are drained.
"""
