"""The leader of a scalable topic: its term, its operations, and the calls to segment owners. It runs the machines of
`machines` and holds no decision of its own.
"""
