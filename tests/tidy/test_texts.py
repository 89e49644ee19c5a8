"""Texts that people read while they use the product: errors, help, answers and log events.

They have none of the idioms that docstrings may still have (`idioms.tsv`) and sentences of at most 25 words. A log
event is one name in snake_case, with the facts as fields.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.idioms import COUNTED
from tests.tidy.repository import Rule, Source, findings, product

SENTENCE_WORDS_MAX = 25
EVENT = re.compile(r"[a-z]+(_[a-z0-9]+)*_([a-z]+ed(_out)?|found|kept|lost)")  # the last word is a past participle
LEVELS = {"debug", "info", "warning", "error", "crashed", "once"}
PROGRAMS = ("project.py", "shells.py", "table.py")  # strings that are programs and SQL, not sentences


def texts(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Every string that is no docstring; of an f-string, each field is one word."""
    skipped: set[int] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
            yield node, "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node, node.value


def idiom(source: Source) -> Iterator[str]:
    if source.parts[-1] in PROGRAMS:
        return
    for node, text in texts(source):
        for match in COUNTED.finditer(text.replace(" no longer", "")) if " " in text else ():
            yield source.found(node, f"'{match.group()}' hides the subject of the sentence: {text[:80]!r}")


def long_sentence(source: Source) -> Iterator[str]:
    if source.parts[-1] in PROGRAMS:
        return
    for node, text in texts(source):
        for sentence in re.split(r"(?<=[.!?])\s+|\n", text):
            words = len(sentence.split())
            if words > SENTENCE_WORDS_MAX:
                yield source.found(node, f"a sentence of {words} words: {sentence[:80]!r}")


def log_event(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        logger = node.func.value
        name = logger.attr if isinstance(logger, ast.Attribute) else getattr(logger, "id", "")
        if node.func.attr not in LEVELS or name not in ("log", "_log", "LOG"):
            continue
        event = node.args[0]
        for each in [event.body, event.orelse] if isinstance(event, ast.IfExp) else [event]:
            text = each.value if isinstance(each, ast.Constant) else None
            # "%": the standard library's logger
            if isinstance(text, str) and "%" not in text and not EVENT.fullmatch(text):
                yield source.found(each, f"{text!r}: a log event is noun_verb_ed, with its facts as fields")


RULES: list[Rule] = [idiom, long_sentence, log_event]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_texts_of_product_keep(rule: Rule) -> None:
    assert findings(rule, product()) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (idiom, 'raise NotFound("nobody is there")'),
        (idiom, 'raise NotFound(f"{name} is no topic")'),
        (long_sentence, f'raise NotFound("{"word " * 26}")'),
        (long_sentence, f'raise NotFound("{"word " * 13}: {"word " * 13}; word")'),
        (log_event, 'log.info("leads no more", topic=topic)'),
        (log_event, 'log.warning("ended")'),
        (log_event, 'log.warning("segment_waiting")'),
        (log_event, 'self._log.crashed("consumer_crash", error)'),
        (log_event, 'log.info("broker_ended" if ended else "broker_running")'),
    ],
)
def test_unclear_text_is_caught(rule: Rule, text: str) -> None:
    assert findings(rule, [Source("src/magnetar/topic/x.py", text)])


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (idiom, '"""Tells nobody."""'),
        (idiom, 'raise TopicNotFound("the topic does not exist: create it first")'),
        (long_sentence, f'raise NotFound("{"word " * 20}. {"word " * 20}")'),
        (log_event, 'log.info("leadership_ended", topic=topic)'),
        (log_event, 'log.info("connection_lost")'),
        (log_event, 'LOG.warning("query %s: %d messages behind")'),
    ],
)
def test_clear_text_is_let_through(rule: Rule, text: str) -> None:
    assert findings(rule, [Source("src/magnetar/topic/x.py", text)]) == []
