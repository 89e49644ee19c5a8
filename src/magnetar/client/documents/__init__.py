"""Bodies of REST calls as msgspec structs, one file a resource, with Pulsar's own field names.

A document is what crosses the wire and nothing else: no behaviour, no defaults that decide anything. Unknown fields in
what a caller sends are ignored, as Pulsar does. Both sides import these: the REST server and the admin client.
"""
