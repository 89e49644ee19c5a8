"""The REST server: a table of routes, and one file per resource with a few plain async functions that use the node.

The server makes no decision about topics, namespaces or policies. It reads a request, calls the component that decides,
and writes the response in the form that Pulsar's tools expect. It trusts nothing in a request: every fault of a request
is a 4xx with a reason. Only `server.py` depends on a web server; everything else runs in the simulator.
"""
