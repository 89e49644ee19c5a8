"""The reference page of the command line, docs/CLI.md, rendered from the commands themselves: never edited by hand, and
a test says so. `python -m magnetar.cli.reference > docs/CLI.md` writes it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from magnetar.cli.exit_codes import CODES, MEANINGS
from magnetar.cli.main import NOUNS, SINGLE, build, examples, module_of
from magnetar.cli.options import CHANGING, EVERYWHERE
from magnetar.cli.output.watch import READING

if TYPE_CHECKING:
    import cyclopts
    from cyclopts import Argument

_HEAD = """# The command line

`magnetar NOUN VERB [ARGUMENTS] [OPTIONS]`; nouns may be said in the plural, and options of every command may stand
before the noun. `sub`, `ns` and `msg` are `subscription`, `namespace` and `message`; `ls`, `describe` and `rm` are the
verbs `list`, `show` and `delete`.

- Standard output has data and nothing else; standard error has everything for people: steps, hints, errors.
- `-o table` is a table on a terminal and plain aligned words in a pipe: no frames, no colours, exact numbers and UTC
  times. `-o json` is the document that REST returns, `-o yaml` the same as YAML; `-o jsonl` has a line for each row.
  `-o csv` is the table with a header and exact values (bytes, seconds, per second, UTC times; RFC 4180), `-o name` one
  name a line. A change that REST answers with nothing gives its steps.
- A command that reads has `--watch[=TIME]`, `TIME` as 500ms, 1s, 2m: it looks again, on a terminal over what was
  there, in a pipe one look behind another. `json`, `jsonl` and `yaml` then have `{"at": ..., "document": ...}`, `csv` a
  first column `at` and one header, `name` only the names that the look before had not. A broker that is away is noted
  on standard error and asked again; if what is watched is gone, the command ends with code 3. Ctrl-C ends it with
  code 0. `message read` has `--follow` instead.
- A table is as wide as the window: names are broken at their joints and never cut, columns that can be missed are left
  out and named, and what fits no window is shown row by row. `NO_COLOR` and `--no-color` leave colours out.
- A command that changes something has `--dry-run`, which asks all its questions and sends none of its changes: a table
  describes what would change, JSON and the like have the requests. One
  whose work cannot be taken back asks for the name on a terminal, and needs `--yes` where there is none; the others
  take `--yes` too and never ask.
- `--no-wait` ends a split or a merge when it is written down and will be carried out, and tells its operation, which
  `magnetar segment history` shows. `topic scale` takes it where one split or merge is enough. All other changes are
  done when the broker answers, so that there is nothing to wait for: they take it, and it changes nothing.
- A split or a merge tells its steps on standard error as they are taken, and with `-o jsonl` as lines of JSON on
  standard output. If it is not done within `--timeout`, the command ends with code 6 and the work goes on; so it may
  after any code 6.
- The same command may be run again: `create --if-not-exists` and `delete --if-exists` end with code 0 where there is
  nothing left to do (a topic with another number of partitions is code 4), `scale`, `seek`, `clear`, `unload` and
  `terminate` lead to the same state, and `split`, `merge` and `skip` are refused or done anew, never half.
- An error says what happened, why, which names are near, what to run next, and a code of the table below. A noun, a
  verb or an option that is nearly right is told with the whole command that was perhaps meant.

## Configuration

Where the broker is and how to authenticate is taken, for each setting apart, from the first that says something: a
flag, the environment, the context, `client.conf`, the default. `magnetar config explain` shows for each setting who
won, where (file and line), and what that overrode; tokens are never shown.

- **Contexts** are named places: `magnetar context add prod --url ... --admin-url ... --token-file ...`, then `magnetar
  context use prod`, or `--context prod` on any command. They are in `$XDG_CONFIG_HOME/magnetar/contexts.toml`
  (`~/.config` without), readable by you alone; comments and fields that a command does not know stay as they are. A
  context holds `url`, `admin_url`, `token` or `token_file`, and `timeout`.
- **`client.conf`** is Pulsar's own file, read as it is, named by `--client-conf`, `MAGNETAR_CLIENT_CONF` or
  `PULSAR_CLIENT_CONF`: `brokerServiceUrl`, `webServiceUrl`, and with `authPlugin` for tokens the `authParams`
  `token:...`, `file:...` or `env:...`. `magnetar context import-client-conf` makes a context of it.
- An empty variable says nothing. An empty flag says that there is none: `--context ""` is without a context, `--token
  ""` without a token.

## Completion

```
source <(magnetar completion bash)                                  # in ~/.bashrc
source <(magnetar completion zsh)                                   # in ~/.zshrc
magnetar completion fish | source                                   # in ~/.config/fish/config.fish
magnetar completion powershell | Out-String | Invoke-Expression     # in $PROFILE
```

`--install` writes the script to where the shell looks instead. Commands, options and their choices are completed
without asking anybody; contexts from their file; tenants, namespaces, topics, subscriptions and segments by asking the
broker that the command would ask, within 300 ms (`MAGNETAR_COMPLETION_S` for who is farther away), and then for a
minute from memory. Whatever goes wrong is silence. PowerShell's script itself is not tried in our tests, only what it
asks for.
"""


def page() -> str:
    app = build("*")
    parts = [_HEAD, _everywhere(app), _exit_codes(), _error_codes()]
    for noun, text in NOUNS.items():
        parts.append(f"\n## magnetar {noun}\n\n{text}\n")
        verbs = import_module(module_of(noun)).VERBS
        parts += [_command(f"{noun} {verb}", function, app[noun][verb], "###") for verb, function in verbs.items()]
    for name in SINGLE:
        function = getattr(import_module(module_of(name)), name)
        parts.append(_command(name, function, app[name], "##"))
    return "".join(parts)


def _command(name: str, function: Callable[..., Any], app: cyclopts.App, level: str) -> str:
    described = inspect.getdoc(function) or ""
    prose = re.split(r"\n(?:Parameters|Examples)\n-+\n", described)[0].strip()
    prose = re.sub(r"\n\n(\$ magnetar .*\n?)+", "", prose)  # shown below
    texts = _parameter_texts(described)
    arguments = [one for one in app.assemble_argument_collection() if one.name != "*"]
    own = [one for one in arguments if not any(_grouped(one, group) for group in (EVERYWHERE, CHANGING, READING))]
    changing = [one for one in arguments if _grouped(one, CHANGING)]
    usage = " ".join(["magnetar", name, *_usage(own)])
    lines = [f"\n{level} magnetar {name}\n\n`{usage}`\n\n{prose}\n"]
    lines.append(_table(own, texts))
    if changing:
        lines.append("\nIt changes something: " + ", ".join(f"`{one.name}`" for one in changing) + ".\n")
    if any(_grouped(one, READING) for one in arguments):
        lines.append("\nIt reads: `--watch[=TIME]`.\n")
    shown = examples(described)
    if shown:
        lines.append("\n```console\n" + "".join(f"$ {line}\n" for line in shown) + "```\n")
    return "".join(lines)


def _grouped(one: Argument, group: cyclopts.Group) -> bool:
    groups: Any = one.parameter.group
    return group in groups


def _usage(arguments: list[Argument]) -> Iterator[str]:
    for one in arguments:
        if one.index is not None:
            yield one.name if one.required else f"[{one.name}]"
        elif one.required:
            yield f"{one.name} {_kind(one)}"


def _table(arguments: list[Argument], texts: dict[str, str]) -> str:
    if not arguments:
        return ""
    rows = []
    for one in arguments:
        key = one.field_info.name if one.parameter.help is None else ""
        text = one.parameter.help or texts.get(key, "")
        names = " ".join(f"`{name}`" for name in one.names)
        kind = _kind(one)
        rows.append(f"| {names}{f' {kind}' if kind and one.index is None else ''} | {text}{_default(one)} |\n")
    return "\n| | |\n|---|---|\n" + "".join(rows)


def _kind(one: Argument) -> str:
    hint = one.hint
    for part in (hint, *get_args(hint), *[inner for outer in get_args(hint) for inner in get_args(outer)]):
        if get_origin(part) is Literal:
            return " or ".join(f"`{choice}`" for choice in get_args(part))
    kinds = {str: "TEXT", int: "NUMBER", float: "NUMBER", bool: ""}
    hints = [hint, *get_args(hint), *[part for one in get_args(hint) for part in get_args(one)]]
    found = [kinds.get(kind) for kind in hints if kind in kinds]
    return (found[0] if found else "FILE") or ""


def _default(one: Argument) -> str:
    default = one.field_info.default
    if one.required or default is None or default is inspect.Parameter.empty or default is False or default == ():
        return ""
    return f" Default: `{str(default).lower() if isinstance(default, bool) else default}`."


def _parameter_texts(described: str) -> dict[str, str]:
    """Of a docstring: the name of each parameter, and what it says."""
    found: dict[str, str] = {}
    section = re.search(r"\nParameters\n-+\n(.*?)(?:\n\nExamples\n|\Z)", described, re.DOTALL)
    name = ""
    for line in (section[1] if section else "").splitlines():
        if line and not line.startswith(" "):
            name = line.strip()
            found[name] = ""
        elif line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _everywhere(app: cyclopts.App) -> str:
    arguments = app["topic"]["delete"].assemble_argument_collection()
    lines = ["\n## Options of every command\n\n| | environment | |\n|---|---|---|\n"]
    for group in (EVERYWHERE, CHANGING):
        for one in arguments:
            if _grouped(one, group) and one.name != "*" and one.parameter.parse is not False:
                names, kind = " ".join(f"`{name}`" for name in one.names), _kind(one)
                names = f"{names} {kind}".strip()
                variables = ", ".join(f"`{name}`" for name in one.parameter.env_var or ())
                only = ""
                if group is CHANGING:
                    lasting = one.name == "--yes"
                    only = f" (Where {'the work cannot be taken back' if lasting else 'something is changed'}.)"
                lines.append(f"| {names} | {variables} | {one.parameter.help}{only}{_default(one)} |\n")
    return "".join(lines)


def _exit_codes() -> str:
    rows = "".join(f"| {code.value} | {text} |\n" for code, text in MEANINGS.items())
    return f"\n## Exit codes\n\n| code | meaning |\n|---|---|\n{rows}"


def _error_codes() -> str:
    rows = []
    for kind, code in sorted(CODES.items(), key=lambda pair: pair[1]):
        again = {"NEVER": "no", "SAME": "yes, later", "REFRESH": "after looking again"}[kind.retry.name]
        happened = "no" if kind.outcome.name == "DEFINITE" else "perhaps"
        rows.append(f"| {code} | {kind.__name__} | {happened} | {again} |\n")
    head = "| code | error | did it happen? | does it help to try again? |\n|---|---|---|---|\n"
    return f"\n## Error codes\n\n{head}{''.join(rows)}"


if __name__ == "__main__":
    sys.stdout.write(page())
