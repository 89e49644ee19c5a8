"""Bytes to frames to commands to entries, and back.

Pure functions over buffers: no socket, no clock, no task. Nothing that a peer sent is trusted before it was read
here; what is read is handed on as plain values. Whatever cannot be read is `BadFrame` (the connection ends) or
`Corrupt` (the entry is refused), never another exception. Payloads are not looked into on the way through a broker.
"""
