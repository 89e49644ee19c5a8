"""Reads in batches without a subscription: plans, holds and entry ranges, for engines such as Spark. Nothing here
acknowledges; a hold keeps messages until it is moved.
"""
