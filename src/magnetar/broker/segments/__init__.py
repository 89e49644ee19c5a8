"""The owner's side of scalable topics: segments that this broker serves, their cursors, their admission rules and
their drain state. The topic's controller decides, the owner acts.
"""
