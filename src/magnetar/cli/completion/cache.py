"""Caches answers of the broker for a short time, so that completion does not ask for each key press. Each answer is one
file below XDG_CACHE_HOME.

The file name is a digest of address, token and path. It reveals no address or token, and one user never sees names that
only another user may see. Only the owner can read the files. A broker that did not answer is not asked again for a
while either. A damaged or unreadable file counts as missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from magnetar.base.limits import (
    COMPLETION_FILES_MAX,
    COMPLETION_FRESH_S,
    COMPLETION_NETWORK_S,
    COMPLETION_SILENT_S,
)
from magnetar.cli.completion.candidates import RestQuery, further, offered, questions
from magnetar.cli.completion.engine import Candidate
from magnetar.cli.settings.context_file import folder
from magnetar.client.admin.quick_get import QuickGet

PATIENCE = "MAGNETAR_COMPLETION_S"


def ask(url: str, token: str, *, kind: str, word: str, topic: str, environment: Mapping[str, str]) -> list[Candidate]:
    """Names of a kind that begin with the typed text."""
    glance = QuickGet(url, token=token, seconds=_patience(environment))
    path = os.path.join(folder(environment, "XDG_CACHE_HOME", ".cache"), "magnetar", "completion")
    memory = CompletionCache(path, glance, who=f"{url}\n{token}")
    queries = questions(kind, word, topic)
    candidates: list[Candidate] = []
    for question, document in zip(queries, memory.answers(queries), strict=True):
        more = further(question, word, len(document) if isinstance(document, list) else 0)
        if more is not None:
            question, document = more, memory.answers([more])[0]
        candidates += offered(question, document, word)
    return candidates


class CompletionCache:
    def __init__(self, path: str, glance: QuickGet, *, who: str) -> None:
        self._path = path
        self._glance = glance
        self._who = who

    def answers(self, queries: list[RestQuery]) -> list[Any]:
        """The answer to each question; None if the broker has not answered."""
        names = [self._name(one.path) for one in queries]
        bodies = [self._read(name) for name in names]
        missing = [place for place, one in enumerate(bodies) if one is None]
        if missing and not self._is_silent():
            fresh = self._glance.get([queries[place].path for place in missing])
            for place, body in zip(missing, fresh, strict=True):
                bodies[place] = body
                if body is not None:
                    self._write(names[place], body)
            if not self._glance.was_answered:
                self._write(self._name(""), b"null")
        return [_decoded(body) for body in bodies]

    def _name(self, path: str) -> str:
        return sha256(f"{self._who}\n{path}".encode()).hexdigest()[:40]

    def _is_silent(self) -> bool:
        return self._read(self._name(""), COMPLETION_SILENT_S) is not None

    def _read(self, name: str, fresh_s: float = COMPLETION_FRESH_S) -> bytes | None:
        try:
            with open(os.path.join(self._path, name), "rb") as file:
                age_s = self._glance.now_s - os.fstat(file.fileno()).st_mtime
                return file.read() if 0 <= age_s < fresh_s else None
        except OSError:
            return None

    def _write(self, name: str, body: bytes) -> None:
        beside = os.path.join(self._path, f"{name}.{os.getpid()}")
        try:
            os.makedirs(self._path, mode=0o700, exist_ok=True)
            self._make_room()
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(body)
            os.replace(beside, os.path.join(self._path, name))
        except OSError:
            return  # a failed write is harmless: the next completion asks again

    def _make_room(self) -> None:
        files = list(os.scandir(self._path))
        if len(files) >= COMPLETION_FILES_MAX:
            oldest = sorted(files, key=lambda one: one.stat().st_mtime)
            for path in oldest[: len(files) // 2]:
                os.unlink(path.path)


def _patience(environment: Mapping[str, str]) -> float:
    """Users with a slow connection to the broker can raise the timeout."""
    try:
        return max(0.0, float(environment.get(PATIENCE, "")))
    except ValueError:
        return COMPLETION_NETWORK_S


def _decoded(body: bytes | None) -> Any:
    try:
        return None if body is None else json.loads(body)
    except ValueError:
        return None
