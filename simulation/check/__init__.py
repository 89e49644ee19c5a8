"""Checkers for every test that breaks things: they read what clients wrote down and return findings.

Two kinds of books, two sets of checkers. `history` and `rules` are of the recorded load, whose players speak frames and
live through crashes of one broker (the crash test and the one with `kill -9`). Everything else reads
`simulation.history`, the lines of real clients in a simulated world, and of the world about its stores: one file for
each invariant of protocol.md 4b, all of them in `verdict`. Nothing here talks to a broker, and nothing trusts one.
"""
