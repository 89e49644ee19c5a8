"""Where `magnetar` begins. `--version` is answered before anything is loaded; every command loads only what it needs.

Usage mistakes end with exit code 2 and say what is wrong, why, and what to run instead. It trusts each command to raise
errors of the tree and nothing else.
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
    "topic": "Topics: list, create, show, delete, statistics; of scalable ones split, merge, scale, explain, verify.",
    "segment": "Segments of scalable topics: list, tree, history, and which takes a key.",
    "key": "Keys of scalable topics: where they are and were.",
    "subscription": "Subscriptions: list, create, delete, show, explain, assignments, seek, skip, clear.",
    "hold": "Holds of scalable topics, what is kept for readers that commit rarely: list, show, delete.",
    "namespace": "Namespaces: list, create, delete, show, their topics.",
    "tenant": "Tenants: list, create, show, delete.",
    "message": "Messages: produce, consume, read, peek.",
    "perf": "How fast it is: produce, consume, round trips.",
    "spark": "Queries of PySpark: doctor, init, run, submit, and of a checkpoint offsets show and lag.",
    "sink": "Sinks, exactly-once writers of topics: list, show, delete.",
    "context": "Contexts, named places where brokers are: list, show, use, add, edit, remove, test.",
    "config": "Which settings are in force, and why: explain.",
}
# Commands without verbs: module and function.
SINGLE = {
    "standalone": "Run a broker in this process.",
    "demo": "Traffic, splits and merges, a kill -9 in the middle, and a verdict counted from the messages.",
    "api": "Any REST call.",
    "completion": "A script that completes commands and names in bash, zsh, fish or PowerShell.",
}
# What a verb does where it is not said.
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

        from magnetar.cli.complete import complete

        return complete(tokens[1:], os.environ)
    return _command(in_order(tokens))


def _command(tokens: list[str]) -> int:
    import cyclopts

    from magnetar.base.errors import MagnetarError
    from magnetar.cli.exits import Exit, Explained, tell_error

    app = build(tokens[0] if tokens else "")
    try:
        outcome = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except cyclopts.CycloptsError as error:
        from magnetar.cli.usage import tell_usage

        tell_usage(error, tokens, build)
        return Exit.USAGE
    except Explained as told:
        return tell_error(told.error, name=told.name, near=told.near, run=told.run, command=_said(tokens))
    except MagnetarError as error:
        return tell_error(error, command=_said(tokens))
    except KeyboardInterrupt:
        return Exit.FAILURE
    except BrokenPipeError:
        return _reader_left()
    return outcome if isinstance(outcome, int) else Exit.OK


def in_order(tokens: list[str]) -> list[str]:
    """A noun may be said in the plural, what a verb usually does be left out. Options before the noun go behind it and
    its verb, where they are understood.
    """
    tokens = [f"{token}=1s" if token == "--watch" else token for token in tokens]  # its value may be left out
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
    noun = rest[0].removesuffix("s")
    if noun not in NOUNS:
        return [rest[0], *before, *rest[1:]]
    usual = USUAL.get((noun, *rest[1:2]))
    said = [usual] if usual is not None and usual not in rest[2:] else []
    return [noun, *rest[1:2], *before, *said, *rest[2:]]


def build(noun: str = "") -> cyclopts.App:
    """The command tree. The verbs of one noun are loaded, or of all where it is "*"."""
    import cyclopts

    from magnetar.cli.sources import filled

    app = cyclopts.App(
        name="magnetar",
        help="A message broker that speaks Apache Pulsar's wire protocol, and everything to look after one.",
        version=__version__,
        help_format="plaintext",
        config=filled,
    )
    for name, text in NOUNS.items():
        group = cyclopts.App(name=name, help=text)
        if noun in (name, "*"):
            for verb, function in verbs_of(name).items():
                group.command(function, name=verb, help_epilogue=_epilogue(function.__doc__))
        app.command(group)
    for name, text in SINGLE.items():
        if noun in (name, "*"):
            function = single(name)
            app.command(function, name=name, help_epilogue=_epilogue(function.__doc__))
        else:
            app.command(f"magnetar.cli.{name}:{name}", help=text)
    return app


def verbs_of(noun: str) -> dict[str, Callable[..., Any]]:
    """As they are called: those that read can be watched."""
    from magnetar.cli.watching import can_watch, watchable

    verbs: dict[str, Callable[..., Any]] = import_module(f"magnetar.cli.{noun}").VERBS
    return {verb: watchable(function) if can_watch(function) else function for verb, function in verbs.items()}


def single(name: str) -> Callable[..., Any]:
    """A command without verbs. `api` reads where its method is GET."""
    from magnetar.cli.watching import watchable

    function: Callable[..., Any] = getattr(import_module(f"magnetar.cli.{name}"), name)
    return watchable(function) if name == "api" else function


def examples(text: str | None) -> list[str]:
    """The commands that a docstring shows."""
    lines = [line.strip() for line in (text or "").splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ magnetar ")]


def _epilogue(text: str | None) -> str:
    found = examples(text)
    return "\n".join(["Examples:", *[f"  {line}" for line in found]]) if found else ""


def _said(tokens: list[str]) -> str:
    """The command without its arguments."""
    return " ".join(["magnetar", *tokens[: 2 if tokens[:1] and tokens[0] in NOUNS else 1]])


def _reader_left() -> int:
    """`magnetar ... | head`: whoever read has seen enough, which is no error."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
