"""REST resources, one module each: plain async functions that read a request, call the node and return a response.

They trust the router for parsing and errors, and open no sockets.
"""
