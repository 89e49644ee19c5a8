"""The randomness of one world: three streams from one seed, and any number of forks of them.

`schedule` decides when things happen, `faults` which faults happen, `workload` what clients do. A fork is derived by
hashing the seed and its name, never by drawing, so that a draw added in one place disturbs no other place. Names are
the identity: two forks of one name are equal generators, so each user chooses a name of its own.
"""

from __future__ import annotations

import hashlib
import random


class RandomStreams:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.schedule = self.fork("schedule", "")
        self.faults = self.fork("faults", "")
        self.workload = self.fork("workload", "")

    def fork(self, stream: str, name: str) -> random.Random:
        text = f"{self.seed}/{len(stream)}/{stream}/{name}"
        return random.Random(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=32).digest(), "big"))
