"""Figures that the broker shows: counters, lag, samples of topics in memory and of unloaded ones, the process and its
machine. Nothing here decides; `admin/monitoring` renders it.
"""
