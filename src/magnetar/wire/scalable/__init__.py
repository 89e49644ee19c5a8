"""Commands and byte forms of scalable topics: layouts, namespace watches, plans and checkpoints. As all of `wire`, it
is pure: bytes in, values out, and back.
"""
