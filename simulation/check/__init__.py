"""Checkers of what real clients recorded: they read a history and return findings.

Each module checks one invariant of protocol.md 4b; `suite` runs all of them. They read the lines of
`simulation.history` and nothing else: lines of clients in a simulated world, and lines of the world about its stores.
They call no broker and trust none. The recorded load of the crash tests has a history and rules of its own, in
`simulation.crash`.
"""
