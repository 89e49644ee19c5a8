"""The whole cluster in one process on a virtual clock, with faults from a seed; and its parts, for tests.

Imported by tests only: nothing under `src` knows it. It trusts the contracts of `runtime/`, `metadata/` and `ledger/`
to be the only doors, and brings its own things behind them.
"""

import logging

from magnetar.base import validation

validation.enable()

# Worlds lose thousands of connections: their clients' warnings are for a replay that asks for the log.
logging.getLogger("magnetar").addHandler(logging.NullHandler())
