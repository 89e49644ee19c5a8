"""Health probes, metrics, rates and statistics over REST.

These modules read the state of the node and never change it. Each value has the name that Pulsar's tools expect.
"""
