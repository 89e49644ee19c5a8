"""The source on the driver: options, offsets, planning and the split of a batch into tasks. Given the same offsets it
plans the same tasks again.
"""
