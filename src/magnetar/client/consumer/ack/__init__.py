"""Acknowledgement: acknowledged, negatively acknowledged, timed-out, redelivered and dead-letter messages. Trackers are
pure; senders own timers and requests.
"""
