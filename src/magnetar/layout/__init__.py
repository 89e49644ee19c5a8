"""The model that broker and client share: segments, the layout they form, their ancestry, and the routing of keys.

Values and pure functions: nothing here waits, stores or asks. It trusts `base` for ranges and hashes, and trusts no
source for consistency: a layout with active ranges that do not cover the keyspace exactly once, or edges that do not
agree, cannot be created.
"""
