"""Topics for PySpark: the position of a query, the ranges of a batch, entries as Arrow columns, and the interfaces that
Spark calls.

Most modules decide and convert. Only `connect` reaches brokers, with one client per process. Only modules that Spark
calls import PySpark. Connections and heavy imports are made at first use. The package trusts `client` to open entries
and `layout` for the ancestry of segments. It does not trust offsets, options or bytes: it rejects unsupported ones with
the remedy.
"""
