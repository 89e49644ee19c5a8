"""Reports a wrong command line like every other error, with the most similar valid command.

A misspelt noun, verb and option are corrected together: for `magnetar topc lst` the suggestion is `magnetar topic
list`. It reads the command tree and runs no command.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable

import cyclopts

from magnetar.cli.exit_codes import tell
from magnetar.cli.help.suggestions import alike, alike_options

CODE = "E200"
# Options of other tools, and the options here with the same meaning. A suggestion requires that the command has the
# option.
SYNONYMS = {
    "--limit": ("--count",),
    "--num": ("--count",),
    "--number": ("--count",),
    "--max": ("--count", "--limit"),
    "--from": ("--start",),
    "--offset": ("--start", "--to"),
    "--group": ("--subscription",),
    "--format": ("--output",),
    "--force-yes": ("--yes",),
    "--retention-time": ("--retention-minutes",),
    "--retention-size": ("--retention-mb",),
    "--time": ("--retention-minutes",),
    "--size": ("--retention-mb",),
    "--ttl": ("--message-ttl",),
    "--position": ("--start", "--to"),
}
NUMBERS: dict[type | None, str] = {int: "an integer", float: "a number"}
NEVER_MEANT = frozenset(("--yes", "--force"))  # options that skip a safety check are never suggested


def tell_usage(error: cyclopts.CycloptsError, tokens: list[str], build: Callable[[str], cyclopts.App]) -> None:
    """`build` makes the command tree with the verbs of one noun."""
    app = build(tokens[0] if tokens else "")
    known, place = _known(app, tokens)
    help = " ".join(["magnetar", *known, "--help"])
    if isinstance(error, cyclopts.UnknownCommandError):
        _tell_command(tokens, known, place, build)
    elif isinstance(error, cyclopts.UnknownOptionError) and (found := _near_option(place, tokens)):
        wrong, right = found
        run = _line(_replaced(tokens, wrong, right))
        tell(f"unknown option {wrong}", why=_usage(place, known), near=[right], run=run, code=CODE)
    else:
        tell(_problem(error), why=_usage(place, known), run=help, code=CODE)


def _problem(error: cyclopts.CycloptsError) -> str:
    match error:
        case cyclopts.UnusedCliTokensError():
            return f"too many arguments: {shlex.join(error.unused_tokens or [])}"
        case cyclopts.MissingArgumentError(argument=argument) if argument is not None:
            name = error.keyword or argument.name
            return f"{name} requires a value" if error.keyword else f"{name} is missing"
        case cyclopts.CoercionError(token=token, target_type=expected) if token is not None and expected in NUMBERS:
            name = token.keyword or (error.argument.name if error.argument else "the value")
            return f"{name} must be {NUMBERS[expected]}, got {token.value!r}"
        case _:
            return " ".join(str(error).split())


def _tell_command(
    tokens: list[str], known: list[str], place: cyclopts.App, build: Callable[[str], cyclopts.App]
) -> None:
    """Corrects a misspelt noun together with a misspelt verb after it."""
    wrong, rest = tokens[len(known)], tokens[len(known) + 1 :]
    if wrong.startswith("-"):
        _tell_option(tokens, wrong)
        return
    there = _commands(place)
    found = alike(wrong, there)[:1]
    meant = [*known, *found]
    if found and not known and rest:
        verbs = _commands(build(found[0])[found[0]])
        if verbs and rest[0] not in verbs:
            second = alike(rest[0], verbs)[:1]
            meant, rest = [*meant, *second], rest[1:] if second else rest
    what = f"unknown command {wrong!r}" if not known else f"{' '.join(known)} has no verb {wrong!r}"
    near = [" ".join(meant)] if found else []
    run = _line([*meant, *rest]) if found else " ".join(["magnetar", *known, "--help"])
    tell(what, why=f"expected one of {', '.join(there)}", near=near, run=run, code=CODE)


def _tell_option(tokens: list[str], wrong: str) -> None:
    """Only options that every command has may stand before the noun."""
    from magnetar.cli.main import BARE, VALUED

    name, options = wrong.partition("=")[0], [*VALUED, *BARE]
    near = alike_options(name, options)[:1]
    run = _line(_replaced(tokens, name, near[0])) if near else "magnetar --help"
    tell(f"unknown option {name}", why=f"allowed before the noun: {', '.join(options)}", near=near, run=run, code=CODE)


def _known(app: cyclopts.App, tokens: list[str]) -> tuple[list[str], cyclopts.App]:
    """The words that name a command in the tree, and their place in the tree."""
    verbs: list[str] = []
    for word in tokens:
        if word not in _commands(app):
            break
        verbs.append(word)
        app = app[word]
    return verbs, app


def _commands(app: cyclopts.App) -> list[str]:
    return [name for name in app if not name.startswith("-")]


def _near_option(place: cyclopts.App, tokens: list[str]) -> tuple[str, str] | None:
    names = [name for one in place.assemble_argument_collection() for name in one.names if name.startswith("--")]
    for token in tokens:
        name = token.partition("=")[0]
        if name.startswith("--") and name not in names:
            guesses = [one for one in names if one not in NEVER_MEANT]
            found = [one for one in SYNONYMS.get(name, ()) if one in names] or alike_options(name, guesses)
            if found:
                return name, found[0]
    return None


def _replaced(tokens: Iterable[str], wrong: str, right: str) -> list[str]:
    return [right + token.removeprefix(wrong) if token.partition("=")[0] == wrong else token for token in tokens]


def _usage(place: cyclopts.App, known: list[str]) -> str:
    """The arguments of the command."""
    if place.default_command is None:
        return "usage: " + " ".join(["magnetar", *known, "VERB", "..."])
    taken = [one for one in place.assemble_argument_collection() if one.index is not None or one.required]
    words = [_word(one.names[0], required=one.required, named=one.index is None) for one in taken]
    return "usage: " + " ".join(["magnetar", *known, *words, "[OPTIONS]"])


def _word(name: str, *, required: bool, named: bool) -> str:
    if named:
        return f"{name} {name.strip('-').upper()}"
    return name if required else f"[{name}]"


def _line(words: list[str]) -> str:
    return shlex.join(["magnetar", *words])
