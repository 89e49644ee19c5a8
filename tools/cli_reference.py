"""The reference page of the command line, docs/CLI.md, rendered from the commands.

`make sync` writes the page and a test compares it. Edit the commands, not the page.
"""

from __future__ import annotations

import inspect
import re
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

`magnetar NOUN VERB [ARGUMENTS] [OPTIONS]`. The plural of a noun works too. Options of every command may stand before
the noun. `sub`, `ns` and `msg` are `subscription`, `namespace` and `message`; `ls`, `describe` and `rm` are the verbs
`list`, `show` and `delete`.

- Standard output contains only data. Standard error contains the messages for people: steps, hints, errors.
- `-o table` is a table on a terminal, and plain aligned words in a pipe: no frames, no colours, exact numbers and UTC
  times. `-o json` is the document that REST returns, `-o yaml` the same as YAML. `-o jsonl` has one line per row.
  `-o csv` is the table with a header and exact values (bytes, seconds, per second, UTC times; RFC 4180). `-o name` has
  one name per line. If REST returns no document for a change, the command prints its steps.
- A command that reads has `--watch[=TIME]`, with `TIME` as 500ms, 1s, 2m. It repeats the request: on a terminal it
  redraws the screen, in a pipe it writes one frame after another. `json`, `jsonl` and `yaml` frames are
  `{"at": ..., "document": ...}`. `csv` has one header and a first column `at`. `name` has only the names that the
  previous frame did not have. If the broker does not answer, the command notes this on standard error and retries. If
  the watched object no longer exists, the command ends with code 3. Ctrl-C ends it with code 0. `message read` has
  `--follow` instead.
- A table is as wide as the window. Long names break at separators and are never truncated. Optional columns are
  dropped and named. A table that fits no window is shown row by row. `NO_COLOR` and `--no-color` disable colours.
- A command that changes data has `--dry-run`, which sends all its reads and none of its changes. A table describes the
  change; JSON and the other formats have the requests. A command whose change is irreversible asks for the name on a
  terminal, and requires `--yes` without one. The other commands accept `--yes` too and never ask.
- With `--no-wait`, a split or a merge ends as soon as the broker has recorded it and will carry it out. The command
  prints the operation, which `magnetar segment history` shows. `topic scale` accepts the option if one split or merge
  is enough. All other changes are complete when the broker answers: they accept the option, and it has no effect.
- A split or a merge reports its steps on standard error, and with `-o jsonl` as lines of JSON on standard output. If it
  has not finished within `--timeout`, the command ends with code 6, and the broker continues. The same may be true
  after any code 6.
- Commands can be repeated. `create --if-not-exists` and `delete --if-exists` end with code 0 if the change was already
  made (a topic with another number of partitions gives code 4). `scale`, `seek`, `clear`, `unload` and `terminate` lead
  to the same state. `split`, `merge` and `skip` are either rejected or executed again, never in part.
- An error states what happened, `why`, its facts (`detail`) or the `usage` of the command, which names are similar
  (`near`), what to `run` next, and a `code` from the table below. For a misspelt noun, verb or option, the error
  suggests the complete correct command.

## Configuration

For each setting, the first source with a value wins: a flag, the environment, the context, `client.conf`, the default.
`magnetar config explain` shows for each setting the source in force (file and line) and the sources that it overrides.
It never shows tokens.

- **Contexts** are named brokers: `magnetar context add prod --url ... --admin-url ... --token-file ...`, then `magnetar
  context use prod`, or `--context prod` on any command. The file is `$XDG_CONFIG_HOME/magnetar/contexts.toml` (default
  `~/.config`), and only its owner can read it. Commands keep its comments and its unknown fields. A context holds
  `url`, `admin_url`, `token` or `token_file`, and `timeout`.
- **`client.conf`** is Pulsar's own file, which `--client-conf`, `MAGNETAR_CLIENT_CONF` or `PULSAR_CLIENT_CONF` names.
  The command line reads `brokerServiceUrl`, `webServiceUrl`, and with an `authPlugin` for tokens the `authParams`
  `token:...`, `file:...` or `env:...`. `magnetar context import-client-conf` creates a context from it.
- An empty variable counts as unset. An empty flag unsets the value: `--context ""` uses no context, `--token ""` no
  token.

## Completion

```
source <(magnetar completion bash)                                  # in ~/.bashrc
source <(magnetar completion zsh)                                   # in ~/.zshrc
magnetar completion fish | source                                   # in ~/.config/fish/config.fish
magnetar completion powershell | Out-String | Invoke-Expression     # in $PROFILE
```

With `--install`, the command writes the script to the folder where the shell looks for it. Commands, options and their
choices are completed without any request, and contexts from their file. Tenants, namespaces, topics, subscriptions and
segments come from the broker that the command would use. The broker has 300 ms to answer (`MAGNETAR_COMPLETION_S` sets
another timeout), and its answers are cached for a minute. On any error, completion offers no words. Our tests do not
run the script for PowerShell; they test only the command that it calls.
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
    texts = parameter_texts(described)
    arguments = [one for one in app.assemble_argument_collection() if one.name != "*"]
    own = [one for one in arguments if not any(_grouped(one, group) for group in (EVERYWHERE, CHANGING, READING))]
    changing = [one for one in arguments if _grouped(one, CHANGING)]
    usage = " ".join(["magnetar", name, *_usage(own)])
    lines = [f"\n{level} magnetar {name}\n\n`{usage}`\n\n{prose(described)}\n"]
    lines.append(_table(own, texts))
    if changing:
        lines.append("\nOptions of the change: " + ", ".join(f"`{one.name}`" for one in changing) + ".\n")
    if any(_grouped(one, READING) for one in arguments):
        lines.append("\nIt only reads data and accepts `--watch[=TIME]`.\n")
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
            name = one.name + ("..." if one.field_info.kind is inspect.Parameter.VAR_POSITIONAL else "")
            yield name if one.required else f"[{name}]"
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
    if one.required or default is inspect.Parameter.empty or default in (None, False, (), ""):
        return ""
    return f" Default: `{str(default).lower() if isinstance(default, bool) else default}`."


def prose(described: str) -> str:
    """The description of a command in its docstring, without its parameters and examples."""
    text = re.split(r"\n(?:Parameters|Examples)\n-+\n", described)[0].strip()
    return re.sub(r"\n\n(\$ magnetar .*\n?)+", "", text)


def parameter_texts(described: str) -> dict[str, str]:
    """The description of each parameter in a docstring, by name."""
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
                    only = f" (Commands with {'an irreversible change' if lasting else 'a change'}.)"
                lines.append(f"| {names} | {variables} | {one.parameter.help}{only}{_default(one)} |\n")
    return "".join(lines)


def _exit_codes() -> str:
    rows = "".join(f"| {code.value} | {text} |\n" for code, text in MEANINGS.items())
    return f"\n## Exit codes\n\n| code | meaning |\n|---|---|\n{rows}"


def _error_codes() -> str:
    rows = []
    for kind, code in sorted(CODES.items(), key=lambda pair: pair[1]):
        again = {"NEVER": "no", "SAME": "yes, later", "REFRESH": "after checking the state"}[kind.retry.name]
        happened = "no" if kind.outcome.name == "DEFINITE" else "perhaps"
        rows.append(f"| {code} | {kind.__name__} | {happened} | {again} |\n")
    head = "| code | error | did it happen? | retry? |\n|---|---|---|---|\n"
    return f"\n## Error codes\n\n{head}{''.join(rows)}"
