"""What broker and client both reason about: segments, the layout they form, who descends from whom, where a key goes.

Values and pure functions: nothing here waits, stores or asks. It trusts `base` for ranges and hashes and nobody for
consistency: a layout whose active ranges do not cover the keyspace exactly once, or whose edges do not agree, cannot be
made.
"""
