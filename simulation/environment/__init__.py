"""The surroundings of a simulated process: event loop, network, disk, threads and HTTP, all on a virtual clock.

Each module replaces one part of a machine and keeps the contract that the product relies on. Randomness comes from the
streams of one seed. Nothing here knows what a broker is.
"""
