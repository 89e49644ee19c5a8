"""Asking before something that cannot be taken back: the name, typed on a terminal, or --yes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from magnetar.base.errors import Misuse
from magnetar.cli.exits import Explained

if TYPE_CHECKING:
    from magnetar.cli.options import Change, Common


def confirm(name: str, loses: str, *, common: Common, change: Change) -> None:
    """Returns where it may go on, and raises where it may not."""
    if change.yes or change.dry_run:
        return
    if common.no_input or not (sys.stdin.isatty() and sys.stderr.isatty()):
        refusal = Misuse(f"this {loses}, and nobody is there to ask", name=name)
        raise Explained(refusal, run="the same with --yes, or --dry-run first")
    sys.stderr.write(f"This {loses}.\nType {name} to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != name:
        raise Explained(Misuse("not confirmed: nothing was changed"), run="the same with --dry-run")
