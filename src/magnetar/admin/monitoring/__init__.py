"""Health probes, metrics, rates and statistics over REST. These modules read the state of the node and never change
it; every figure has the name that Pulsar's tools expect.
"""
