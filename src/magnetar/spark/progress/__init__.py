"""Progress of a query: how far its offset is behind, for Spark's progress report and the command line, and the
checkpoint folder that Spark writes.
"""
