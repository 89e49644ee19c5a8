"""The table of all words that commands accept, for completion: `words.tsv`, rendered from the commands.

`make sync` writes the table and a test compares it. A line has a command (empty: the root), its kind (command,
argument, option), its names, the kind of value, and a short description. `also` refers to options that most commands
share. The completion engine reads the table, because loading the commands would make completion slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from magnetar.cli.completion import entry
from magnetar.cli.completion.engine import CHOICES, EVERYWHERE, FILE, MANY
from magnetar.cli.main import BARE, NOUNS, SINGLE, VALUED, build

if TYPE_CHECKING:
    import cyclopts
    from cyclopts import Argument

Line = tuple[str, str, str, str]  # kind, names, kind of value, description
ALSO: Line = ("also", EVERYWHERE, "", "")

TABLE = Path(entry.TABLE)

# Arguments and options whose value is a name that a broker or a file knows.
KINDS = {
    "TOPIC": "topic",
    "NAMESPACE": "namespace",
    "TENANT": "tenant",
    "SEGMENT": "segment",
    "--subscription": "subscription",
    "--context": "context",
    "--client-conf": FILE,
}
SCALABLE = "scalable topic"  # text in an argument's description that marks a scalable topic
NEW = ("create", "add", "import-client-conf")  # commands whose first argument is a new name


def table() -> str:
    app = build("*")
    commands = {
        **{f"{noun} {verb}": app[noun][verb] for noun in NOUNS for verb in app[noun] if not verb.startswith("-")},
        **{name: app[name] for name in SINGLE},
    }
    slots = {path: [_slot(path, one) for one in _arguments(command)] for path, command in commands.items()}
    # options of both reading and changing commands
    shared = [one for one in slots["topic delete"] if one[1].split(",")[0] in (*VALUED, *BARE)]
    lines = [_line(EVERYWHERE, one) for one in shared]
    lines += [_line("", ("command", name, "", text)) for name, text in {**NOUNS, **SINGLE}.items()]
    lines.append(_line("", ALSO))
    for noun in NOUNS:
        below = [path for path in commands if path.startswith(f"{noun} ")]
        lines += [
            _line(noun, ("command", path.removeprefix(f"{noun} "), "", _first(commands[path].help))) for path in below
        ]
        lines.append(_line(noun, ALSO))
    for path, found in slots.items():
        is_usual = set(shared) <= set(found)
        lines += [_line(path, one) for one in found if not is_usual or one not in shared]
        lines += [_line(path, ALSO)] * is_usual
    return "\n" + "\n".join(lines) + "\n"


def _arguments(app: cyclopts.App) -> Iterator[Argument]:
    for one in app.assemble_argument_collection(parse_docstring=True):
        if one.name != "*" and one.parameter.show is not False:
            yield one


def _slot(command: str, one: Argument) -> Line:
    kind = "option" if one.index is None else "argument"
    return kind, ",".join(one.names), _takes(command, one), _first(one.parameter.help)


def _takes(command: str, one: Argument) -> str:
    """A kind of name, choices, a file, any text, or empty for a switch."""
    hints = _hints(one.hint)
    many = MANY if any(get_origin(hint) in (list, tuple) for hint in hints) else ""
    if bool in hints or one.names[0] in BARE:
        return ""
    choices = next((get_args(hint) for hint in hints if get_origin(hint) is Literal), ())
    if choices:
        return CHOICES + "|".join(str(choice) for choice in choices) + many
    if Path in hints:
        return FILE + many
    noun, _, verb = command.partition(" ")
    name = one.names[0]
    is_first = one.index == 0
    if is_first and verb in NEW and noun != "subscription":
        return "text"
    if name == "TOPIC" and SCALABLE in (one.parameter.help or ""):
        return "scalable"
    if name == "SEGMENTS" and many:
        return f"segment{many}"
    if name == "NAME":
        new = verb in NEW
        return "text" if new else {"subscription": "subscription", "context": "context"}.get(noun, "text")
    return KINDS.get(name, "text") + many


def _hints(hint: Any) -> list[Any]:
    """A type and all its component types."""
    found = [hint]
    if get_origin(hint) is not Literal:
        for part in get_args(hint):
            found += _hints(part)
    return found


def _first(text: str | None) -> str:
    """The first sentence of a text."""
    line = " ".join((text or "").split("\n\n")[0].split())
    return line.split(". ")[0].removesuffix(".")


def _line(command: str, line: Line) -> str:
    return "\t".join((command, *line))
