"""Messages on the command line: lines of text to messages, readers for `message read`, and peeking over REST.
Rendering of received messages is in `cli/output`.
"""
