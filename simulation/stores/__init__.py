"""A metadata store and a ledger store in memory, with the faults that their contracts allow.

They are written apart from the product's engines, so that the shared contract suites check one against the other.
Faults happen on demand, or by rates that a world sets.
"""
