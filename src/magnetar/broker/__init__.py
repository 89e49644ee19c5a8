"""The node: a listener, connections, one handler file per family of commands, ordered start and stop.

It translates frames to calls on topics and on `cluster`, and their results to frames. Its only protocol decision is the
choice of the reply that ends a request. It trusts `security` for permissions.
"""
