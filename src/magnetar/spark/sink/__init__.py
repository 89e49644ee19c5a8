"""The sink: Arrow batches to messages, written to stages and committed once, or sent at least once. The driver
commits; tasks only write.
"""
