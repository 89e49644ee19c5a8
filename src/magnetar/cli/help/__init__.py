"""Hints for errors and for misspelt commands: what to run next, and names that are close to an unknown one. It reads
error texts and the command table, and asks no broker.
"""
