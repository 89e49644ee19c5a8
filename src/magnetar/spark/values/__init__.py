"""Decodes message values to columns by the schema of their writer: one file per kind of schema.

Pure: takes a schema and bytes, returns Arrow. `spark.typed` requests schema versions. Rows are never guessed: a value
that does not match its schema raises `Unreadable` with the row and the field.
"""
