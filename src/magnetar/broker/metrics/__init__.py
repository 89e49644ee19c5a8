"""Values for metrics: counters, lag, samples of loaded and unloaded topics, the process and its machine.

These modules decide nothing; `admin/monitoring` renders the values.
"""
