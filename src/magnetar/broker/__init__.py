"""The node: a listener, connections, one handler file per family of commands, start and stop in order.

It turns frames into calls on topics and the cluster's rooms, and their answers into frames. It holds no protocol
decision of its own beyond which reply ends which request, and it trusts `security` to say who may do what.
"""
