"""The recorded load of the crash tests: one broker whose power is cut at every write, sync and metadata step.

Its clients speak frames over `frame_connection` and keep a history of their own, which `rules` judges. The test that
kills real broker processes uses the same clients and rules.
"""
