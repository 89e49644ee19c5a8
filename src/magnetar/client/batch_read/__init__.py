"""Reads in batches without a subscription: plans, holds and entry ranges, for engines such as Spark. This package
acknowledges nothing; a hold keeps messages until it is moved.
"""
