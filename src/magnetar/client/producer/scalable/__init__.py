"""Publishing to scalable topics: one queue for each active segment, resent in order after every reshape. Queues and
schedules are pure; writers own the connection.
"""
