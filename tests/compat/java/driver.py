"""The real Java client of scalable topics in a JVM of its own, driven line by line (`V5.java`).

It is compiled here with plain javac against the jars that Maven keeps. Where Java or Maven is missing, the test that
asked is skipped with what to install.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.servers import java

POM = "java-v5.pom.xml"
SOURCES = sorted(Path(__file__).parent.glob("*.java"))
HEAP_MB = 256


class Refusal(Exception):
    """What the client threw, with its causes."""


class V5:
    """One client. Every method is one line to it and its answer."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        classes = compiled(folder)
        command = java.command(
            POM, heap_mb=HEAP_MB, properties={"org.slf4j.simpleLogger.logFile": str(folder / "java.log")}
        )
        command[-1] = f"{classes}:{command[-1]}"
        self._output = (folder / "java.out").open("wb")
        self._process = subprocess.Popen(
            [*command, "V5", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._output, text=True
        )
        self._answer()

    def ask(self, *words: object) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line.startswith("error "):
            raise Refusal(line.removeprefix("error "))
        assert line.startswith("ok"), f"the client is gone:\n{self.log()}"
        return line.removeprefix("ok").strip()

    def log(self) -> str:
        texts = [path.read_text(errors="replace") for path in self._folder.glob("java.*") if path.is_file()]
        return "\n".join("\n".join(texts).splitlines()[-60:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._output.close()


@cache
def _compile(folder: Path) -> Path:
    path, _ = java.java()
    javac = path.with_name("javac")
    if not javac.exists():
        pytest.skip(f"no javac beside {path}: install a JDK")
    done = subprocess.run(
        [javac, "-nowarn", "-cp", java.class_path(POM), "-d", str(folder), *map(str, SOURCES)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return folder


def compiled(folder: Path) -> Path:
    """The classes, made once for all tests of a run."""
    return _compile(folder.parent / "java-classes")
