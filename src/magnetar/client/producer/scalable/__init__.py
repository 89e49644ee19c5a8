"""Publishing to scalable topics: one queue for each active segment, resent in order after every reshape. Queues and
schedules make decisions without I/O; writers own the connections.
"""
