"""One topic: its producers, duplicates, dispatch, acknowledgements and end.

Small pure files decide (`producers/access.py`, `dedup/dedup.py`, and in `dispatch/` failover, key_selectors, key_order,
redelivery, delayed and permits). `topic.py`, `subscriptions/` and the dispatchers act on a managed ledger and on client
channels. The topic does not know sockets, sizes of frames or other topics. It trusts the broker to have checked the
permissions of the peer.
"""
