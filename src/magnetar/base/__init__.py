"""Names, hash ranges, hashes, ids, the exception tree and every limit.

Pure values and functions: nothing here waits, reads a clock or touches a file, and nothing here imports another room
of ours. It trusts its own types; whatever comes from outside is checked here once, on the way in.
"""
