"""Who owns what: clusters, tenants, namespaces, the catalogue of topics, bundles, and which broker serves them.

It keeps records and decides; it serves no client and opens no topic. The metadata store's compare-and-set is what it
trusts, never that it is alone. Refusals carry Pulsar's words and statuses where those were recorded, because people's
scripts read them.
"""
