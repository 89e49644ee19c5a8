"""The model that broker and client share: segments, the layout they form, their ancestry, and the routing of keys.

Values and pure functions: nothing here waits, stores or asks. It trusts `base` for ranges and hashes, and trusts no
source for consistency: a layout whose active ranges do not cover the keyspace exactly once, or whose edges do not
agree, cannot be created.
"""
