"""A metadata store in memory that several brokers of one process share, each in its own thread. For tests of
applications: nothing is kept on disk.
"""
