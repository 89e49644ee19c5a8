"""`magnetar config`: the settings in force and their sources. It never shows tokens."""

from __future__ import annotations

import os
from typing import Any

from magnetar.base.errors import Misuse
from magnetar.cli.exit_codes import Exit, tell, tell_error
from magnetar.cli.options import COMMON, Common
from magnetar.cli.output.output import TableData
from magnetar.cli.output.values import Cell
from magnetar.cli.settings.resolve import KNOBS, Setting, shown
from magnetar.cli.settings.sources import CURRENT, Configuration, helped, revealed


def explain(*, common: Common = COMMON) -> Exit:
    """Show each setting of the command line: its value, its source, and the sources that it overrides.

    A flag takes precedence over the environment, then come the context, client.conf and the default. The command lists
    settings of client.conf that have no effect here. It reports errors in files and then ends with exit code 2. For the
    settings of the broker, run `magnetar broker config`.

    Examples
    --------
    $ magnetar config explain
    $ magnetar config explain --url pulsar://other:6650 -o json
    """
    found = CURRENT.get()
    rows: list[tuple[Cell, ...]] = [row for one in found.settings.values() for row in _rows(one)]
    parts = [TableData(("SETTING", "VALUE", "SOURCE", "WHERE", "COUNTS"), rows)]
    if found.conf is not None and found.conf.ignored:
        ignored: list[tuple[Cell, ...]] = [
            (one.key, _short(f"{found.conf.path}:{one.line}")) for one in found.conf.ignored
        ]
        parts.append(TableData(("KEY", "WHERE"), ignored, title="Settings of client.conf without effect here:"))
    lines = [_said(one) for one in found.settings.values()]
    common.out.show(_document(found), *parts, lines=lines)
    return _tell(found, quiet=common.quiet)


VERBS = {"explain": explain}


def _rows(one: Setting) -> list[tuple[Cell, ...]]:
    """The source in force, then the sources that it overrides."""
    if one.won is None:
        return [(one.name, None, None, None, None)]
    rows: list[tuple[Cell, ...]] = []
    for said in (one.won, *one.overrode):
        counts = "yes" if said is one.won else "no"
        rows.append((one.name, shown(one.name, said), said.layer.title, _short(said.where) or None, counts))
    return rows


def _short(where: str) -> str:
    home = os.path.expanduser("~")
    return "~" + where.removeprefix(home) if home != "/" and where.startswith(f"{home}/") else where


def _tell(found: Configuration, *, quiet: bool) -> Exit:
    if not quiet:
        for doubt in found.doubts:
            tell(doubt)
    problems = [*found.problems]
    token = found.settings["token"].won
    if token is not None:
        try:
            revealed(token, os.environ)
        except Misuse as error:
            problems.append(error)
    for problem in problems:
        one = helped(problem, found)
        tell_error(one.error, near=one.near, run=one.run)
    return Exit.USAGE if problems else Exit.OK


def _document(found: Configuration) -> dict[str, Any]:
    ignored = found.conf.ignored if found.conf else []
    return {
        "settings": {name: _said(one) for name, one in found.settings.items()},
        "ignored": [{"key": one.key, "line": one.line} for one in ignored],
        "doubts": list(found.doubts),
        "problems": [str(problem) for problem in found.problems],
    }


def _said(one: Setting) -> dict[str, Any]:
    sources = [
        {"value": shown(one.name, each), "source": each.layer.title, "where": each.where or None}
        for each in ((one.won, *one.overrode) if one.won else ())
    ]
    first: dict[str, Any] = sources[0] if sources else {"value": None, "source": None, "where": None}
    return {"name": one.name, **first, "redacted": KNOBS[one.name].is_secret, "overrode": sources[1:]}
