"""Deliberately broken versions of the product, each with one fault that worlds must find.

A mutant replaces one engine or one function while a world runs. `tests/sim` checks that each is caught within its
number of worlds, and that the same world has no findings without it. The product has no switch for any of them.
"""
