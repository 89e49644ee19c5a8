"""The REST server: a table of routes, one file per resource, each a few plain async functions over the node.

It decides nothing about topics, namespaces or policies: it reads a request, asks the room that knows, and writes the
answer in the form that Pulsar's tools expect. It trusts nothing in a request: whatever is wrong with it is a 4xx with a
reason. `server.py` alone knows that there is a web server; everything else runs in the simulator.
"""
