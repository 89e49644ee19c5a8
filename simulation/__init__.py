"""A whole cluster in one process on a virtual clock, with faults from a seed; and its parts, for tests.

Only tests import it: no module under `src` knows it. It assumes that the product reaches time, tasks, files and stores
through the contracts of `runtime/`, `metadata/` and `ledger/`, and implements these contracts itself.
"""

import logging

from magnetar.base import validation

validation.enable()

# Worlds lose thousands of connections: their clients' warnings are for a replay that asks for the log.
logging.getLogger("magnetar").addHandler(logging.NullHandler())
