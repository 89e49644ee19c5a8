"""A shell on a terminal of its own, typed into: for completion, which only a shell on a terminal does.

Whatever is waited for is waited for by what is seen, never by time. The `magnetar` of such a shell is a script that
answers shells with the real command and only writes down everything else, so that what was completed is seen exactly,
as the words that the shell made of it.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from magnetar.cli.completion.shells import SCRIPTS, Shell
from tests.cli.conftest import PATIENCE_S

START = {
    "bash": ["bash", "--noprofile", "--rcfile", "{start}", "-i"],
    "zsh": ["zsh", "-d", "-i"],  # it finds .zshrc in ZDOTDIR
    "fish": ["fish", "--no-config", "-i", "-C", "source {start}"],
}
# No bell, no paste marks, nothing from a history, nobody asked, and a prompt that is easy to see.
PREPARE = {
    "bash": """\
bind 'set bell-style none'
bind 'set enable-bracketed-paste off'
bind 'set show-all-if-ambiguous on'
bind 'set page-completions off'
bind 'set completion-query-items 0'
source '{script}'
PS1='READY> '
""",
    "zsh": """\
autoload -Uz compinit
compinit -u -D
source '{script}'
setopt no_beep auto_list no_list_ambiguous no_auto_menu no_prompt_sp no_prompt_cr
unset zle_bracketed_paste
LISTMAX=100000
PS1='READY> '
""",
    "fish": """\
source '{script}'
function fish_prompt; echo 'READY> '; end
set -g fish_autosuggestion_enabled 0
""",
}
# A shell with jobs wants a terminal that is its own.
OWN = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
_ANSI = re.compile(r"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07]*\x07|[\x0e\x0f\a]")


class Typed:
    """`with Typed("zsh", folder, environment) as shell:`; skips where there is no such shell."""

    def __init__(self, shell: Shell, folder: Path, environment: dict[str, str]) -> None:
        if shutil.which(shell) is None:
            pytest.skip(f"no {shell} on PATH: install it (apt install {shell})")
        self.shell = shell
        self._raw = b""
        self._run = folder / "run.jsonl"
        tools = folder / "bin"
        tools.mkdir(parents=True)
        command = tools / "magnetar"
        command.write_text(
            f'#!/bin/sh\n[ "$1" = __complete ] && exec "{sys.executable}" -m magnetar.cli.main "$@"\n'
            f'exec "{sys.executable}" -c \'import json, sys; print(json.dumps(sys.argv[1:]))\' "$@" >> "{self._run}"\n'
        )
        command.chmod(0o755)
        script = folder / f"magnetar.{shell}"
        script.write_text(SCRIPTS[shell])
        start = folder / ".zshrc"
        start.write_text(PREPARE[shell].format(script=script))
        above, below = pty.openpty()
        termios.tcsetwinsize(below, (100, 200))
        self._above = above
        self._process = subprocess.Popen(
            [sys.executable, "-c", OWN, *[part.format(start=start) for part in START[shell]]],
            stdin=below,
            stdout=below,
            stderr=below,
            start_new_session=True,
            cwd=folder,
            env={
                **environment,
                "PATH": f"{tools}:{os.environ['PATH']}",
                "HOME": str(folder),
                "ZDOTDIR": str(folder),
                "TERM": "xterm",
                "MAGNETAR_COMPLETION_S": str(PATIENCE_S),
            },
        )
        os.close(below)
        self.see("READY> ")

    def type(self, keys: str) -> None:
        os.write(self._above, keys.encode())

    def see(self, *texts: str) -> str:
        """Waits until all of them are on the screen after what was seen before; returns what is."""
        while not all(text in self.seen for text in texts):
            ready = select.select([self._above], [], [], PATIENCE_S)[0]
            assert ready, f"{self.shell} did not show {texts}, but {self.seen!r}"
            self._raw += os.read(self._above, 65536)  # a read may end within what moves the cursor
        shown, self._raw = self.seen, b""
        return shown

    @property
    def seen(self) -> str:
        """What came since, without what only moves or colours."""
        return _ANSI.sub("", self._raw.decode(errors="replace")).replace("\r", "")

    def completed(self, line: str, *texts: str) -> list[str]:
        """The words that the shell made of a line and TAB: those with which it called the command. `texts` are what
        the screen must show before."""
        before = len(self._runs())
        self.type(f"{line}\t")
        self.see(*texts)
        self.type("\r")
        while len(self._runs()) == before:
            self.see("READY> ")
        words: list[str] = json.loads(self._runs()[before])
        return words

    def listed(self, line: str, *texts: str) -> str:
        """What is on the screen after a line and TAB, once all of these are."""
        self.type(f"{line}\t")
        shown = self.see(*texts)
        self.type("\x15")  # forget the line
        return shown

    def _runs(self) -> list[str]:
        return self._run.read_text().splitlines() if self._run.exists() else []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._above)
