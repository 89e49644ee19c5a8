"""Topics for PySpark: where a query stands, what a batch reads, entries as Arrow columns, and what Spark calls.

Most of it decides and converts; `connect` alone reaches brokers, by one client for each process, and only what Spark
calls imports PySpark. Nothing is opened and nothing heavy is imported before it is used. It trusts `client` for opening
entries and `layout` for who descends from whom, and nobody for offsets, options and bytes: what it cannot honour it
refuses with what to do.
"""
