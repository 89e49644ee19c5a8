"""Splits a command line that is being typed into words, and quotes words for the shell.

Pure. The line may end inside a word or inside quotes. Variables and commands in the line are not expanded. A name from
a broker always stays a single word: every character that is special to the shell is escaped.
"""

from __future__ import annotations

from typing import NamedTuple

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,")


class ShellLine(NamedTuple):
    """The last word is incomplete; `quote` is the quotation mark that is still open in it."""

    words: list[str]
    quote: str = ""


def split(line: str, *, escape: str = "\\") -> ShellLine:
    words, word, quote = [], "", ""
    is_word = False
    at = 0
    while at < len(line):
        letter = line[at]
        at += 1
        if quote:
            if letter == quote:
                quote = ""
            elif letter == escape and quote == '"' and at < len(line) and line[at] in f'{escape}"$`':
                word, at = word + line[at], at + 1
            else:
                word += letter
        elif letter in "'\"":
            quote, is_word = letter, True
        elif letter == escape and at < len(line):
            word, at, is_word = word + line[at], at + 1, True
        elif letter.isspace():
            if is_word:
                words.append(word)
            word, is_word = "", False
        else:
            word, is_word = word + letter, True
    return ShellLine([*words, word], quote)


def for_bash(value: str, word: str, *, quote: str, breaks: str) -> str | None:
    """Replacement for the part of `word` that bash treats as the word; None if bash cannot represent it."""
    if quote == "'":
        return None if "'" in value else value
    if quote:
        if "!" in value:
            return None  # an interactive bash expands it from its history, even if it is escaped
        return "".join(f"\\{letter}" if letter in '"$`\\' else letter for letter in value)
    cut = max((word.rfind(letter) for letter in ":=" if letter in breaks), default=-1) + 1
    return "".join(letter if letter in _PLAIN or letter.isalnum() else f"\\{letter}" for letter in value[cut:])


def for_powershell(value: str) -> str:
    if all(letter in _PLAIN for letter in value) and not value.startswith(("@", ",")):
        return value
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
