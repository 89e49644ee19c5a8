"""One client connection: frames in, commands to their handlers, bytes out in order, and the limits on what a
connection may hold. It knows nothing of topics; handlers do.
"""
