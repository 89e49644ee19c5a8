"""Decisions about scalable topics: pure state machines and functions that take events and return effects. Nothing here
waits, reads a clock or calls a broker.
"""
