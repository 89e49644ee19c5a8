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
    configuration = CURRENT.get()
    rows: list[tuple[Cell, ...]] = [row for one in configuration.settings.values() for row in _rows(one)]
    parts = [TableData(("SETTING", "VALUE", "SOURCE", "WHERE", "COUNTS"), rows)]
    if configuration.conf is not None and configuration.conf.ignored:
        ignored: list[tuple[Cell, ...]] = [
            (one.key, _short(f"{configuration.conf.path}:{one.line}")) for one in configuration.conf.ignored
        ]
        parts.append(TableData(("KEY", "WHERE"), ignored, title="Settings of client.conf without effect here:"))
    lines = [_said(one) for one in configuration.settings.values()]
    common.out.show(_document(configuration), *parts, lines=lines)
    return _tell(configuration, quiet=common.quiet)


VERBS = {"explain": explain}


def _rows(setting: Setting) -> list[tuple[Cell, ...]]:
    """The source in force, then the sources that it overrides."""
    if setting.won is None:
        return [(setting.name, None, None, None, None)]
    rows: list[tuple[Cell, ...]] = []
    for value in (setting.won, *setting.overrode):
        counts = "yes" if value is setting.won else "no"
        rows.append((setting.name, shown(setting.name, value), value.layer.title, _short(value.where) or None, counts))
    return rows


def _short(where: str) -> str:
    home = os.path.expanduser("~")
    return "~" + where.removeprefix(home) if home != "/" and where.startswith(f"{home}/") else where


def _tell(configuration: Configuration, *, quiet: bool) -> Exit:
    if not quiet:
        for doubt in configuration.doubts:
            tell(doubt)
    problems = [*configuration.problems]
    token = configuration.settings["token"].won
    if token is not None:
        try:
            revealed(token, os.environ)
        except Misuse as error:
            problems.append(error)
    for problem in problems:
        explained = helped(problem, configuration)
        tell_error(explained.error, near=explained.near, run=explained.run)
    return Exit.USAGE if problems else Exit.OK


def _document(configuration: Configuration) -> dict[str, Any]:
    ignored = configuration.conf.ignored if configuration.conf else []
    return {
        "settings": {name: _said(one) for name, one in configuration.settings.items()},
        "ignored": [{"key": one.key, "line": one.line} for one in ignored],
        "doubts": list(configuration.doubts),
        "problems": [str(problem) for problem in configuration.problems],
    }


def _said(setting: Setting) -> dict[str, Any]:
    sources = [
        {"value": shown(setting.name, each), "source": each.layer.title, "where": each.where or None}
        for each in ((setting.won, *setting.overrode) if setting.won else ())
    ]
    first: dict[str, Any] = sources[0] if sources else {"value": None, "source": None, "where": None}
    return {"name": setting.name, **first, "redacted": KNOBS[setting.name].is_secret, "overrode": sources[1:]}
