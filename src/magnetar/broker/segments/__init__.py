"""The owner's part of scalable topics: segments of this broker, their cursors, admission rules and drain state.

The controller of a topic decides, and the owner acts.
"""
