"""Operators of a world: they administrate topics through the REST routes of its brokers while clients work.

Each operator records its requests and their outcomes in the history. It retries only in a healed world.
"""
