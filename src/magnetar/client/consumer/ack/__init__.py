"""Acknowledgement: what is acknowledged, negatively acknowledged, timed out, redelivered or published to a dead-letter
topic. Trackers are pure; senders own timers and requests.
"""
