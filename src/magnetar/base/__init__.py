"""Names, hash ranges, hashes, ids, the exception tree and all limits.

Pure values and functions: no waits, no clocks, no files, and no imports of other packages of ours. It trusts its own
types; input from outside is validated here once.
"""
