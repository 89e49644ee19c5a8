"""Generated load: keyed producers, consumers that join and leave, latency histograms and the order check. `topic
verify-order`, `perf` and the demo use it.
"""
