"""The reference page of the errors, docs/ERRORS.md, rendered from the tree of errors: never edited by hand, and a test
says so. `make sync` writes it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

from magnetar.base import errors
from magnetar.base.errors import MagnetarError
from magnetar.wire.proto import pb

_HEAD = """# Errors

Every error of the client, the broker and the REST interface has one class. The class decides the code on the wire, the
status over HTTP and the advice to the caller. All classes are in `magnetar.errors`; `MagnetarError` is the root. The
message of an error says what is wrong and what to do; `facts` has the same values for programs.

```python
import magnetar

try:
    magnetar.Client("pulsar+ssl://localhost:6651")
except magnetar.MagnetarError as error:
    print(type(error).__name__, error.outcome.name, error.retry.name)  # NotBuilt DEFINITE NEVER
```

| outcome | meaning |
|---|---|
| DEFINITE | the outcome is known, and the message says it |
| INDEFINITE | the call may have had its effect. Read the state before you repeat the call |

| retry | meaning |
|---|---|
| NEVER | the same call fails again |
| SAME | the same call may succeed later |
| REFRESH | read the owner, the version or the layout again, and then call |

A recorded exchange of Apache Pulsar may demand another code or status in one place. There `wire_code` and `http_status`
of the error instance differ from its class. [CLI](CLI.md) lists the exit codes of the command line. A receive without a
message raises `NoMessage`, which only the client has ([CLIENT](CLIENT.md#errors)).

This page is made by `make sync`.
"""
_KINDS = [  # by their own names: the module has a loop variable too
    kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, MagnetarError) and kind.__name__ == name
]
_GROUPS: dict[type[MagnetarError], str] = {
    errors.Misuse: "The call is wrong: correct the program. A retry fails again.",
    errors.Refused: "The broker rejected the call. Nothing happened.",
    errors.Unavailable: "Nothing happened. Try again later.",
    errors.Unknown: "The call may have had its effect.",
    errors.Corrupt: "Bytes are damaged. The reader stops and does not guess.",
}


def page() -> str:
    return "\n".join([_HEAD, *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    for group, meaning in _GROUPS.items():
        yield f"## {group.__name__}\n"
        yield f"{meaning}\n"
        yield "| class | is a | wire code | HTTP status | outcome | retry | meaning |\n|---|---|---|---|---|---|---|"
        yield from (_row(kind) for kind in _KINDS if issubclass(kind, group))
        yield ""


def _row(kind: type[MagnetarError]) -> str:
    wire = f"{kind.wire} {pb.ServerError.Name(pb.ServerError.ValueType(kind.wire))}"
    meaning = " ".join((inspect.getdoc(kind) or "").split()) if "__doc__" in kind.__dict__ else ""
    parent = kind.__bases__[0].__name__
    cells = (f"`{kind.__name__}`", f"`{parent}`", wire, kind.http, kind.outcome.name, kind.retry.name, meaning)
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.stdout.write(page())
