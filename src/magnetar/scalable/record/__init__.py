"""The records of scalable topics and of their subscriptions: values, their byte form and their store. A record changes
by compare-and-set only.
"""
