"""The marks that a reshape passes, in order: a broker may die at each of them."""

from __future__ import annotations

SPLIT = [
    "reshape.intended",
    "reshape.child_provisioned",
    "reshape.provisioned",
    "reshape.checked",
    "topic.sealed",
    "reshape.sealed",
    "reshape.seeded",
    "reshape.committed",
]
MERGE = [step.replace("child_provisioned", "parent_sealed") for step in SPLIT]  # one child, two parents
