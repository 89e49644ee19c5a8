"""Delivery: entries are checked, decompressed, assembled from chunks and queued until the application receives them,
within bounds in messages and bytes.
"""
