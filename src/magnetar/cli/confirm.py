"""Confirmation of irreversible changes: the user types the name on a terminal, or passes --yes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from magnetar.base.errors import Misuse
from magnetar.cli.exit_codes import ErrorWithHint

if TYPE_CHECKING:
    from magnetar.cli.options import Change, Common


def confirm(name: str, loses: str, *, common: Common, change: Change) -> None:
    """Returns if the change is confirmed, and raises otherwise."""
    if change.yes or change.dry_run:
        return
    if common.no_input or not (sys.stdin.isatty() and sys.stderr.isatty()):
        refusal = Misuse(f"this {loses}. Confirmation is required: run in a terminal or pass --yes", name=name)
        raise ErrorWithHint(refusal, run="the same command with --yes, or with --dry-run first")
    sys.stderr.write(f"This {loses}.\nType {name} to continue: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != name:
        raise ErrorWithHint(Misuse("not confirmed: nothing was changed"), run="the same command with --dry-run")
