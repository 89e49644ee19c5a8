"""Subscriptions of a topic: cursors, attached consumers, lag and expiry. How entries reach consumers is decided in
`topic/dispatch`.
"""
