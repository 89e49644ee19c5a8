"""Scalable topics for PySpark: where a query stands, what a batch reads, and entries as Arrow columns.

Everything here decides and converts; it opens no connection, keeps no thread and imports neither PySpark, pyarrow nor
numpy until they are used. It trusts `client` for opening entries and `layout` for who descends from whom, and nobody
for offsets, options and bytes: what it cannot honour it refuses with what to do.
"""
