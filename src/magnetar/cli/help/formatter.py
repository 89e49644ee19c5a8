"""Renders `--help`: the usage line, and the options with their defaults.

Differs from cyclopts' own rendering in five points. The usage line names the arguments. The options of one command are
called options, as in the usage line. A text breaks at the width of the terminal only, not where its docstring breaks.
The default of a pair of flags is the name of the flag. An empty default is left out. It trusts cyclopts for everything
else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclopts.help import DefaultFormatter, HelpEntry, HelpPanel, InlineText
from rich.text import Text

from magnetar.cli.help.usage import unquoted, usage

if TYPE_CHECKING:
    import cyclopts
    from rich.console import Console, ConsoleOptions


class HelpFormatter(DefaultFormatter):
    """`app`: the command tree, which has the arguments of each command."""

    def __init__(self, app: cyclopts.App) -> None:
        super().__init__()
        self._app = app

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        title = "Options" if panel.title == "Parameters" else panel.title
        entries = [_readable(entry) for entry in panel.entries]
        super().__call__(console, options, panel.copy(title=title, entries=entries))

    def render_usage(self, console: Console, options: ConsoleOptions, usage_: Any) -> None:
        _, *words = str(usage_).split()
        super().render_usage(console, options, Text(usage(self._app, words) + "\n", style="cyclopts.usage"))


def _readable(entry: HelpEntry) -> HelpEntry:
    description = entry.description
    if isinstance(description, InlineText) and isinstance(description.primary_renderable, Text):
        text = description.primary_renderable
        text.plain = unquoted(" ".join(text.plain.split()))
    return entry.copy(default=_default(entry))


def _default(entry: HelpEntry) -> str | None:
    if entry.default == '""':
        return None
    flags = {"True": entry.positive_names, "False": entry.negative_names}
    return next(iter(flags.get(entry.default or "", ())), entry.default)
