"""Completes the words of a command line.

Pure: takes the words and the table of all commands (`words.tsv`). Returns either the candidates, or the kind of name
that the caller must look up. It knows no shell and reads no files. It runs at every press of TAB: it scans only the
table lines of one command and imports no heavy module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

MANY = "*"  # suffix of a slot that takes any number of values
CHOICES = "="  # prefix of a slot whose value is one of these words
FILE = "file"
EVERYWHERE = "*"  # table path of the options that most commands share

Candidate = tuple[str, str]  # a word and its description


class ArgumentSpec(NamedTuple):
    """An argument or an option of a command. `takes` is a kind of name, choices, or empty for a switch."""

    names: tuple[str, ...]
    takes: str
    help: str

    @property
    def is_repeated(self) -> bool:
        return self.takes.endswith(MANY)


class Command(NamedTuple):
    below: list[Candidate]
    arguments: list[ArgumentSpec]
    options: list[ArgumentSpec]

    def option(self, name: str) -> ArgumentSpec | None:
        return next((one for one in self.options if name in one.names), None)


class CompletionRequest(NamedTuple):
    """`candidates` begin with the typed text. If `kind` is set, they are empty and the caller must look up names of
    that kind. `word` is the typed part to complete, `before` the text in front of it in the same word (`--context=`).
    `given` holds the options so far by their first name, `arguments` the other words.
    """

    candidates: list[Candidate]
    kind: str = ""
    word: str = ""
    before: str = ""
    given: Mapping[str, str] = MappingProxyType({})
    arguments: tuple[str, ...] = ()


def wanted(words: Sequence[str], table: str) -> CompletionRequest:
    """`words` follow `magnetar`. The last one is incomplete and may be empty."""
    *past, word = words or [""]
    path, command = "", _command(table, "")
    options: dict[str, str] = {}
    arguments: list[str] = []
    waiting: ArgumentSpec | None = None
    plain = False  # after `--`, every word is an argument
    for token in past:
        if waiting is not None:
            options[waiting.names[0]] = token
            waiting = None
        elif plain or not token.startswith("-") or token == "-":  # noqa: S105 - a word of the command line
            if command.below:
                path = f"{path} {_said(token, command)}".strip()
                command = _command(table, path)
            else:
                arguments.append(token)
        elif token == "--":  # noqa: S105 - as above
            plain = True
        else:
            name, equals, value = token.partition("=")
            slot = command.option(name)
            if slot is not None and slot.takes and not equals:
                waiting = slot
            elif slot is not None:
                options[slot.names[0]] = value
    so_far = CompletionRequest([], given=options, arguments=tuple(arguments))
    if waiting is not None:
        return _values(waiting, word, so_far)
    if word.startswith("-") and not plain:
        name, equals, value = word.partition("=")
        slot = command.option(name) if equals else None
        if slot is not None and slot.takes:
            return _values(slot, value, so_far._replace(before=f"{name}="))
        return so_far._replace(candidates=_beginning(word, _options(command, options)), word=word)
    if command.below:
        return so_far._replace(candidates=_beginning(word, command.below), word=word)
    if slot := _argument(command, len(arguments)):
        return _values(slot, word, so_far)
    return so_far._replace(candidates=[] if word else list(_options(command, options)), word=word)


def _command(table: str, path: str) -> Command:
    command = Command([], [], [])
    for line in _lines(table, path):
        kind, names, takes, text = line.split("\t")
        slot = ArgumentSpec(tuple(names.split(",")), takes, text)
        if kind == "command":
            command.below.append((names, text))
        elif kind == "also":
            command.options.extend(_command(table, names).options)
        else:
            (command.options if kind == "option" else command.arguments).append(slot)
    return command


def _lines(table: str, path: str) -> Iterator[str]:
    """The table stores the lines of a command together, each after its path."""
    begin = f"\n{path}\t"
    at = table.find(begin)
    while at >= 0:
        end = table.find("\n", at + 1)
        yield table[at + len(begin) : end]
        at = end if table.startswith(begin, end) else -1


def _said(token: str, command: Command) -> str:
    """Accepts the plural of a noun."""
    names = [name for name, _ in command.below]
    return token if token in names else token.removesuffix("s")


def _argument(command: Command, place: int) -> ArgumentSpec | None:
    if place < len(command.arguments):
        return command.arguments[place]
    last = command.arguments[-1] if command.arguments else None
    return last if last is not None and last.is_repeated else None


def _options(command: Command, options: dict[str, str]) -> Iterator[Candidate]:
    """Each option by its long names, without options that are on the line already."""
    for slot in command.options:
        if slot.names[0] not in options or slot.is_repeated:
            for name in slot.names:
                if name.startswith("--") or len(slot.names) == 1:
                    yield name, slot.help
    yield "--help", "Show the description and examples"


def _values(slot: ArgumentSpec, word: str, so_far: CompletionRequest) -> CompletionRequest:
    takes = slot.takes.removesuffix(MANY)
    if takes.startswith(CHOICES):
        choices = [(choice, "") for choice in takes.removeprefix(CHOICES).split("|")]
        return so_far._replace(candidates=_beginning(word, choices), word=word)
    return so_far._replace(kind=takes, word=word)


def _beginning(word: str, candidates: Iterator[Candidate] | list[Candidate]) -> list[Candidate]:
    return [one for one in candidates if one[0].startswith(word)]
