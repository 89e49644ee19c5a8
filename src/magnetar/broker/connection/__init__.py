"""One client connection: splits frames, passes commands to their handlers, writes bytes in order, and limits its
memory.

It does not depend on topics; handlers do.
"""
