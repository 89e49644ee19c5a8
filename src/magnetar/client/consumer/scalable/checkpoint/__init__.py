"""Checkpoint consumers: a topic read from a checkpoint that the application stores, alone or as a member of a group.
The broker keeps no subscription for them.
"""
