"""Records and ownership: clusters, tenants, namespaces, the catalogue of topics, bundles, and the broker of each
bundle.

These modules keep records and decide; they serve no client and open no topic. They trust the compare-and-set of the
metadata store and assume concurrent brokers. Errors have Pulsar's recorded texts and statuses, because existing scripts
read them.
"""
