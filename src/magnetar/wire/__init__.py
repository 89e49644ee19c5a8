"""Converts bytes to frames, commands and entries, and back.

Pure functions over buffers: no sockets, clocks or tasks. Input of a peer is trusted only after this package has decoded
it to plain values. Unreadable input raises `BadFrame` (the connection ends) or `Corrupt` (the entry is rejected), never
another exception. A broker passes payloads on without decoding them.
"""
