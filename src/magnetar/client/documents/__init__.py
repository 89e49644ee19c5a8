"""Bodies of REST calls as msgspec structs, one file per resource, with Pulsar's own field names.

A document contains only data of the wire: no behaviour, and no defaults with meaning. Unknown fields in a request are
ignored, as in Pulsar. Both the REST server and the admin client import these.
"""
