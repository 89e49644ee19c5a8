"""Observers of a world: they count rare events, sample limits, and record in the history what the stores hold.

An observer only reads: it decides nothing and changes nothing in the world.
"""
