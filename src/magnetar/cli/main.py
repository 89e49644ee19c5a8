"""Entry point of `magnetar`. `--version` loads no other module; every command loads only the modules it needs.

Usage errors end with exit code 2 and name the problem, its reason, and the command to run instead. This module trusts
each command to raise only errors of the tree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from magnetar import __version__

if TYPE_CHECKING:
    import cyclopts

# Nouns with verbs of their own, each a module beside this one with its VERBS.
NOUNS = {
    "topic": "Topics: list, create, show, set, delete, stats. Scalable topics: split, merge, scale, explain, verify.",
    "segment": "Segments of scalable topics: list, tree, history, and the segment of a key.",
    "key": "Keys of scalable topics: their current and earlier segments.",
    "subscription": "Subscriptions: list, create, delete, show, explain, assignments, seek, skip, clear.",
    "hold": "Holds of scalable topics keep messages for readers that commit rarely: list, show, delete.",
    "autoscale": "Automatic splits and merges: show, set, unset, explain, history, pause, resume, simulate.",
    "namespace": "Namespaces: list, create, delete, show, set policies, their topics.",
    "schema": "Schemas of topics: list versions, show.",
    "broker": "The broker: show, settings, connections.",
    "tenant": "Tenants: list, create, show, delete.",
    "message": "Messages: produce, consume, read, peek.",
    "perf": "Performance measurements: produce, consume, round trips.",
    "spark": "PySpark queries: doctor, init, run, submit; offsets and lag of a checkpoint.",
    "sink": "Sinks, exactly-once writers of topics: list, show, delete.",
    "context": "Contexts, named addresses of brokers: list, show, use, add, edit, remove, test.",
    "config": "Settings in force and their sources: explain.",
}
# Commands without verbs: module and function.
SINGLE = {
    "standalone": "Run a broker in this process.",
    "demo": "Demonstrate the guarantees: traffic, splits, merges, a kill -9, and a check that counts every message.",
    "api": "Send any REST request.",
    "completion": "Print a completion script for bash, zsh, fish or PowerShell.",
}
# The order of `magnetar --help`.
TASKS = {
    "Start and try": ("standalone", "demo"),
    "Topics and subscriptions": ("topic", "segment", "key", "subscription", "hold", "autoscale", "schema"),
    "Messages": ("message", "perf", "spark", "sink"),
    "Administration": ("broker", "tenant", "namespace", "api"),
    "This command line": ("context", "config", "completion"),
}
HELP = """A message broker that speaks Apache Pulsar's wire protocol, and the tools to operate it.

Options of every command, such as --url and --output, may also stand before the noun."""
EXAMPLES = """
    $ magnetar standalone --data data
    $ magnetar message produce orders hello
    $ magnetar --output json topic list
    $ magnetar topic --help
"""
# Their modules are in `commands`, and so are those of nouns, except these.
MODULES = {"topic": "commands.topic.topic", "completion": "completion.command", "demo": "demo"}
# Aliases known from other tools; a verb of the same name takes precedence.
NOUN_ALIASES = {"sub": "subscription", "ns": "namespace", "msg": "message"}
VERB_ALIASES = {"ls": "list", "describe": "show", "rm": "delete"}
# The default action of a verb.
USUAL: dict[tuple[str, ...], str] = {("spark", "offsets"): "show"}
# Options that may stand before the noun; those in the first group take a value.
VALUED = ("--url", "--admin-url", "--token", "--output", "-o", "--timeout", "--context", "--client-conf")
BARE = ("--no-color", "--no-input", "--quiet", "-q", "--watch")


def main(arguments: list[str] | None = None) -> int:
    tokens = sys.argv[1:] if arguments is None else arguments
    if tokens in (["--version"], ["version"]):
        sys.stdout.write(f"magnetar {__version__}\n")
        return 0
    if tokens[:1] == ["__complete"]:  # what shells ask at every press of TAB
        import os

        from magnetar.cli.completion.entry import complete

        return complete(tokens[1:], os.environ)
    return _command(in_order(tokens))


def _command(tokens: list[str]) -> int:
    from magnetar.base.errors import MagnetarError
    from magnetar.cli.exit_codes import ErrorWithHint, Exit, tell, tell_error

    try:
        import cyclopts
        import rich as _  # noqa: F401
    except ModuleNotFoundError as error:
        tell(
            f"the command line cannot start: the package {error.name} is missing",
            why="a plain install brings the client only",
            run="pip install 'magnetar[cli]'",
        )
        return Exit.FAILURE
    app = build(tokens[0] if tokens else "")
    if len(tokens) < 2 or not {"--help", "-h"}.isdisjoint(tokens):  # the formatter takes time to load
        from magnetar.cli.help.formatter import HelpFormatter

        app.help_formatter = HelpFormatter(app)
    try:
        outcome = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except cyclopts.CycloptsError as error:
        from magnetar.cli.help.usage import tell_usage

        tell_usage(error, tokens, build)
        return Exit.USAGE
    except ErrorWithHint as hinted:
        return tell_error(hinted.error, name=hinted.name, near=hinted.near, run=hinted.run, command=_said(tokens))
    except MagnetarError as error:
        return tell_error(error, command=_said(tokens))
    except KeyboardInterrupt:
        return Exit.FAILURE
    except BrokenPipeError:
        return _reader_left()
    return outcome if isinstance(outcome, int) else Exit.OK


def in_order(tokens: list[str]) -> list[str]:
    """Resolves plurals and aliases, and adds the default action of a verb. Moves options that stand before the noun
    behind the verb.
    """
    # The value of --watch may be left out.
    tokens = [f"{word}=1s" if word == "--watch" else word for word in tokens]
    place = 0
    while place < len(tokens):
        name, equals, _ = tokens[place].partition("=")
        if name in BARE or (name in VALUED and equals):
            place += 1
        elif name in VALUED:
            place += 2
        else:
            break
    before, rest = tokens[:place], tokens[place:]
    if not rest:
        return tokens
    noun = rest[0] if rest[0] in NOUN_ALIASES else rest[0].removesuffix("s")
    noun = NOUN_ALIASES.get(noun, noun)
    if noun not in NOUNS:
        return [rest[0], *before, *rest[1:]]
    rest = [rest[0], *(VERB_ALIASES.get(verb, verb) for verb in rest[1:2]), *rest[2:]]
    if (noun, *rest[1:2]) == ("message", "produce"):
        rest = ["--stdin" if word == "-" else word for word in rest]  # as in other tools
    usual = USUAL.get((noun, *rest[1:2]))
    default = [usual] if usual is not None and usual not in rest[2:] else []
    return [noun, *rest[1:2], *before, *default, *rest[2:]]


def build(noun: str = "") -> cyclopts.App:
    """The command tree. Loads the verbs of one noun, or of all nouns for "*"."""
    import cyclopts

    from magnetar.cli.settings.sources import filled

    app = cyclopts.App(
        name="magnetar",
        help=HELP,
        help_epilogue=_epilogue(EXAMPLES),
        version=__version__,
        help_format="plaintext",
        config=filled,
    )
    groups = [cyclopts.Group(task, sort_key=order) for order, task in enumerate([*TASKS, "Options"])]
    panels: dict[str, dict[str, Any]] = {
        name: {"group": group, "sort_key": order}
        for group, names in zip(groups, TASKS.values(), strict=False)
        for order, name in enumerate(names)
    }
    for flag in ("--help", "--version"):
        app[flag].group = (groups[-1],)
    for name, text in NOUNS.items():
        group = cyclopts.App(name=name, help=text, help_epilogue="", **panels[name])
        if noun in (name, "*"):
            for verb, function in verbs_of(name).items():
                group.command(function, name=verb, help=_prose(function), help_epilogue=_epilogue(function.__doc__))
        app.command(group)
    for name, text in SINGLE.items():
        if noun in (name, "*"):
            function = single(name)
            epilogue = _epilogue(function.__doc__)
            app.command(function, name=name, help=_prose(function), help_epilogue=epilogue, **panels[name])
        else:
            app.command(f"{module_of(name)}:{name}", help=text, **panels[name])
    return app


def module_of(name: str) -> str:
    """The module of a noun, or of a command without verbs."""
    return f"magnetar.cli.{MODULES.get(name, f'commands.{name}')}"


def verbs_of(noun: str) -> dict[str, Callable[..., Any]]:
    """The verbs by name. Verbs that only read can be watched."""
    from magnetar.cli.output.watch import can_watch, watchable

    verbs: dict[str, Callable[..., Any]] = import_module(module_of(noun)).VERBS
    return {verb: watchable(function) if can_watch(function) else function for verb, function in verbs.items()}


def single(name: str) -> Callable[..., Any]:
    """A command without verbs. `api` can be watched if its method is GET."""
    from magnetar.cli.output.watch import watchable

    function: Callable[..., Any] = getattr(import_module(module_of(name)), name)
    return watchable(function) if name == "api" else function


def examples(text: str | None) -> list[str]:
    """The commands that a docstring shows."""
    lines = [line.strip() for line in (text or "").splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ magnetar ")]


def _prose(function: Callable[..., Any]) -> str:
    """The paragraphs of a docstring, each on one line: the help breaks lines at the width of the terminal."""
    import inspect
    import re

    from magnetar.cli.help.usage import unquoted

    text = re.split(r"\n(?:Parameters|Examples)\n-+\n", inspect.getdoc(function) or "")[0]
    return "\n\n".join(" ".join(unquoted(paragraph).split()) for paragraph in text.strip().split("\n\n"))


def _epilogue(text: str | None) -> str:
    lines = examples(text)
    return "\n".join(["Examples:", *[f"  {line}" for line in lines]]) if lines else ""


def _said(tokens: list[str]) -> str:
    """The command without its arguments."""
    return " ".join(["magnetar", *tokens[: 2 if tokens[:1] and tokens[0] in NOUNS else 1]])


def _reader_left() -> int:
    """`magnetar ... | head`: the reader has closed the pipe. This is not an error."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
