"""Reports a wrong command line like every other error, with the most similar valid command.

A misspelt noun, verb and option are corrected together: for `magnetar topc lst` the suggestion is `magnetar topic
list`. It reads the command tree and runs no command.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import Literal, get_args, get_origin

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
    "--host": ("--bind-address",),
    "--web-port": ("--http-port",),
}
NUMBERS: dict[type | None, str] = {int: "an integer", float: "a number"}
NEVER_MEANT = frozenset(("--yes", "--force"))  # options that skip a safety check are never suggested


def tell_usage(error: cyclopts.CycloptsError, tokens: list[str], build: Callable[[str], cyclopts.App]) -> None:
    """`build` makes the command tree with the verbs of one noun."""
    app = build(tokens[0] if tokens else "")
    words, command = _known(app, tokens)
    if isinstance(error, cyclopts.UnknownCommandError):
        _tell_command(tokens, words, command, build)
        return
    corrections = _corrections(error, command, tokens)
    near = [right for _, right in corrections]
    run = [*words, "--help"]
    if corrections and all(right for _, right in corrections):
        run = tokens
        for wrong, right in corrections:
            run = _replaced(run, wrong, right)
    tell(_problem(error), usage=usage(app, words), near=[right for right in near if right], run=_line(run), code=CODE)


def usage(app: cyclopts.App, words: Iterable[str]) -> str:
    """The command that `words` begin with, and its arguments: `magnetar topic list [NAMESPACE] [OPTIONS]`."""
    prefix, command = _known(app, list(words))
    if command.default_command is None:
        return " ".join(["magnetar", *prefix, "VERB [ARGUMENTS] [OPTIONS]" if prefix else "[OPTIONS] NOUN VERB ..."])
    arguments = [each for each in command.assemble_argument_collection() if each.index is not None or each.required]
    return " ".join(["magnetar", *prefix, *map(_word, arguments), "[OPTIONS]"])


def unquoted(text: str) -> str:
    """Docstrings quote with backticks, as the reference page needs them. A terminal gets ordinary quotes."""
    return text.replace("`", '"')


def _word(argument: cyclopts.Argument) -> str:
    if argument.index is None:
        return f"{argument.name} {argument.name.strip('-').upper()}"
    many = "..." if argument.field_info.kind is argument.field_info.VAR_POSITIONAL else ""
    return f"{argument.names[0]}{many}" if argument.required else f"[{argument.names[0]}{many}]"


def _problem(error: cyclopts.CycloptsError) -> str:
    """The error in the words of this command line. cyclopts' own words are left for errors that no command causes."""
    match error:
        case cyclopts.UnknownOptionError(token=token):
            return f"unknown option {_option(token.keyword or token.value)}"
        case cyclopts.UnusedCliTokensError():
            return f"too many arguments: {shlex.join(error.unused_tokens or [])}"
        case cyclopts.MissingArgumentError(argument=argument) if argument is not None:
            name = error.keyword or argument.name
            return f"{name} requires a value" if error.keyword else f"{name} is missing"
        case cyclopts.RepeatArgumentError(token=token):
            return f"{token.keyword or token.value} must be given only once"
        case cyclopts.CoercionError(token=token, target_type=expected) if token is not None:
            if expected in NUMBERS:
                return f"{_name(error)} must be {NUMBERS[expected]}, got {token.value!r}"
            if choices := _choices(error):
                return f"{_name(error)} must be one of {', '.join(choices)}, got {token.value!r}"
        case cyclopts.ValidationError(argument=argument) if argument is not None and argument.tokens:
            value, reason = argument.tokens[0].value, error.exception_message.rstrip(".")
            if reason.startswith("Must be "):
                return f"{_name(error)} must be {_bound(reason.removeprefix('Must be '))}, got {value!r}"
            return f"{_name(error)} is invalid: {reason[:1].lower()}{reason[1:]}"
    text = " ".join(str(error).split()).rstrip(".")
    return text[:1].lower() + text[1:]


def _bound(text: str) -> str:
    """ ">= 1" in words."""
    sign, _, number = text.partition(" ")
    words = {">": "greater than", ">=": "at least", "<": "less than", "<=": "at most"}
    return f"{words[sign]} {number}" if sign in words else text


def _name(error: cyclopts.CycloptsError) -> str:
    """The option as the user typed it, or the name of the argument."""
    argument = error.argument
    if argument is None:
        return "the value"
    return argument.tokens[0].keyword or argument.name if argument.tokens else argument.name


def _choices(error: cyclopts.CoercionError) -> list[str]:
    return [str(choice) for choice in get_args(error.target_type)] if get_origin(error.target_type) is Literal else []


def _corrections(error: cyclopts.CycloptsError, command: cyclopts.App, tokens: list[str]) -> list[tuple[str, str]]:
    """Wrong words of the command line, and for each the word that the user probably meant, or ""."""
    if isinstance(error, cyclopts.UnknownOptionError):
        return _near_options(command, tokens)
    if isinstance(error, cyclopts.CoercionError) and error.token is not None and (choices := _choices(error)):
        near = alike(error.token.value, choices)[:1]
        return [(error.token.value, near[0])] if near and error.token.value in tokens else []
    return []


def _option(word: str) -> str:
    return word.partition("=")[0]


def _tell_command(
    tokens: list[str], words: list[str], command: cyclopts.App, build: Callable[[str], cyclopts.App]
) -> None:
    """Corrects a misspelt noun together with a misspelt verb after it."""
    wrong, rest = tokens[len(words)], tokens[len(words) + 1 :]
    if wrong.startswith("-"):
        _tell_option(tokens, wrong)
        return
    names = _commands(command)
    similar = alike(wrong, names)[:1]
    meant = [*words, *similar]
    if similar and not words and rest:
        verbs = _commands(build(similar[0])[similar[0]])
        if verbs and rest[0] not in verbs:
            second = alike(rest[0], verbs)[:1]
            meant, rest = [*meant, *second], rest[1:] if second else rest
    near = [" ".join(meant)] if similar else []
    run = _line([*meant, *rest]) if similar else _line([*words, "--help"])
    detail = f"{'the verbs' if words else 'the nouns'} are {', '.join(names)}"
    tell(f"unknown command {' '.join([*words, wrong])!r}", detail=detail, near=near, run=run, code=CODE)


def _tell_option(tokens: list[str], wrong: str) -> None:
    """Only options that every command has may stand before the noun."""
    from magnetar.cli.main import BARE, VALUED

    name, options = wrong.partition("=")[0], [*VALUED, *BARE]
    near = alike_options(name, options)[:1]
    run = _line(_replaced(tokens, name, near[0])) if near else "magnetar --help"
    tell(
        f"unknown option {name}", detail=f"allowed before the noun: {', '.join(options)}", near=near, run=run, code=CODE
    )


def _known(app: cyclopts.App, tokens: list[str]) -> tuple[list[str], cyclopts.App]:
    """The words that name a command in the tree, and the command itself."""
    verbs: list[str] = []
    for word in tokens:
        if word not in _commands(app):
            break
        verbs.append(word)
        app = app[word]
    return verbs, app


def _commands(app: cyclopts.App) -> list[str]:
    return [name for name in app if not name.startswith("-")]


def _near_options(command: cyclopts.App, tokens: list[str]) -> list[tuple[str, str]]:
    """Every option that the command does not have, and the most similar one that it has, or ""."""
    names = [name for each in command.assemble_argument_collection() for name in each.names if name.startswith("--")]
    guesses = [each for each in names if each not in NEVER_MEANT]
    unknown = dict.fromkeys(
        _option(token) for token in tokens if token.startswith("--") and _option(token) not in names
    )
    return [(each, next(iter(_similar(each, names, guesses)), "")) for each in unknown]


def _similar(name: str, names: list[str], guesses: list[str]) -> list[str]:
    return [each for each in SYNONYMS.get(name, ()) if each in names] or alike_options(name, guesses)


def _replaced(tokens: Iterable[str], wrong: str, right: str) -> list[str]:
    return [right + token.removeprefix(wrong) if token.partition("=")[0] == wrong else token for token in tokens]


def _line(words: list[str]) -> str:
    return shlex.join(["magnetar", *words])
