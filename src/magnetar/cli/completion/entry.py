"""`magnetar __complete SHELL [WORDS]`: shells run this command at every press of TAB, through the scripts of `magnetar
completion`.

The first output line says how the shell uses the candidates (`words`, `nospace`, `files`). Each further line has a
word, a tab and its description. The command never fails, never writes to standard error, and waits for the network at
most COMPLETION_NETWORK_S. It caches answers for COMPLETION_FRESH_S below XDG_CACHE_HOME. bash and PowerShell pass the
line in a variable, because they split words differently or lose empty ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from magnetar.cli.completion.engine import FILE, Candidate, CompletionRequest, wanted
from magnetar.cli.completion.shell_line import ShellLine, for_bash, for_powershell, split

LINE, BREAKS = "_MAGNETAR_LINE", "_MAGNETAR_BREAKS"
TABLE = os.path.join(os.path.dirname(__file__), "words.tsv")


def complete(arguments: list[str], environment: Mapping[str, str]) -> int:
    try:
        text = answer(arguments, environment)
    except Exception:  # an error message would disturb the line that the user types
        text = "words\n"
    sys.stdout.write(text)
    return 0


def answer(arguments: list[str], environment: Mapping[str, str]) -> str:
    shell, *words = arguments or [""]
    line = ShellLine(words or [""])
    if shell in ("bash", "powershell"):
        line = split(environment.get(LINE, ""), escape="\\" if shell == "bash" else "`")
        line = line._replace(words=line.words[1:] or [""])
    with open(TABLE, encoding="utf-8") as file:
        request = wanted(line.words, file.read())
    if request.kind == FILE:
        return "files\n"
    candidates = request.candidates or (looked_up(request, environment) if request.kind else [])
    return "".join(_written(shell, line, candidates, request.before, environment))


def looked_up(request: CompletionRequest, environment: Mapping[str, str]) -> list[Candidate]:
    """Names of contexts from the context file, other names from the broker that the command would use."""
    from magnetar.cli.completion.candidates import KINDS

    if request.kind not in KINDS and request.kind != "context":
        return []
    from magnetar.cli.settings.resolve import KNOBS
    from magnetar.cli.settings.sources import gather, revealed

    names = {knob.flag: name for name, knob in KNOBS.items()}
    flags = {names[flag]: value for flag, value in request.given.items() if flag in names}
    settings = gather(flags, environment)
    if request.kind == "context":
        contexts = settings.contexts.all.values() if settings.contexts else ()
        named = [(one.name, str(one.fields.get("url") or one.fields.get("admin_url") or "")) for one in contexts]
        return [one for one in named if one[0].startswith(request.word)]
    from magnetar.cli.completion.cache import ask

    won = settings.settings["token"].won
    token = revealed(won, environment) if won is not None else ""
    topic = request.arguments[0] if request.arguments else ""
    return ask(
        settings.value("admin_url"), token, kind=request.kind, word=request.word, topic=topic, environment=environment
    )


def _written(
    shell: str, line: ShellLine, candidates: list[Candidate], before: str, environment: Mapping[str, str]
) -> list[str]:
    word = line.words[-1]
    lines = []
    for value, text in candidates:
        whole: str | None = before + value
        if shell == "bash":
            whole = for_bash(before + value, word, quote=line.quote, breaks=environment.get(BREAKS, ""))
        elif shell == "powershell":
            whole = for_powershell(before + value)
        if whole is not None:
            lines.append(f"{whole}\t{text}\n")
    is_open = bool(candidates) and all(value.endswith(("/", "=")) for value, _ in candidates)
    return ["nospace\n" if is_open else "words\n", *lines]
