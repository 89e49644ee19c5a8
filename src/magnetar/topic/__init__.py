"""One topic: who may publish, what is a duplicate, who gets which message, what was acknowledged, where it ends.

Small pure files decide (access, dedup, active, selectors, keyorder, redelivery, delayed, permits); `topic.py`,
`subscription.py` and `dispatch/` act on a managed ledger and on outlets. It does not know sockets, frames' sizes or
other topics, and trusts the broker to have asked whether the peer may do what it does.
"""
