"""Values of messages made into columns by the schema they were written with: one file for each kind of schema.

Pure: a schema and bytes come in, Arrow comes out. Nobody is asked here what a version of a schema says (`spark.typed`
does that), and no row is guessed at: what does not fit its schema is `Unreadable`, with the row and the field.
"""
