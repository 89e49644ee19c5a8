"""Consumers and readers of plain, partitioned and pattern topics. `scalable` holds those of scalable topics, `receive`
the delivery of messages, `ack` their acknowledgement.
"""
