"""Options that many commands share: where the broker is, how to answer, how to change something.

A flag wins over the environment, that over a context, that over client.conf, that over the default (`layers`,
`sources`). They may stand before the noun or after the verb.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter, validators

from magnetar.base.errors import Misuse, Refused
from magnetar.cli.output import Form, Output

if TYPE_CHECKING:
    from magnetar.cli.session import Session

EVERYWHERE = Group("Every command", sort_key=20)
CHANGING = Group("Changes", sort_key=10)


def flag(text: str, *names: str) -> Parameter:
    return Parameter(name=list(names) or None, help=text, negative="", show_default=False)


@Parameter(name="*", group=EVERYWHERE)
@dataclass(frozen=True)
class Common:
    """Where the broker is and how to answer."""

    url: Annotated[str, Parameter(env_var="MAGNETAR_URL", help="Where clients connect.")] = "pulsar://localhost:6650"
    admin_url: Annotated[str, Parameter(env_var="MAGNETAR_ADMIN_URL", help="Where its REST interface is.")] = (
        "http://localhost:8080"
    )
    token: Annotated[
        str | None, Parameter(env_var="MAGNETAR_TOKEN", help="A token to authenticate with.", show_default=False)
    ] = None
    output: Annotated[
        Form,
        Parameter(
            name=["--output", "-o"],
            env_var="MAGNETAR_OUTPUT",
            help="table: for people; plain words in a pipe. json, yaml: as REST returns it. jsonl: a line for each "
            "row. csv: exact values. name: a name a line.",
        ),
    ] = "table"
    timeout: Annotated[
        float,
        Parameter(
            env_var="MAGNETAR_TIMEOUT",
            validator=validators.Number(gt=0),
            help="Seconds to wait for one answer of the broker, and for work that goes on to be done.",
        ),
    ] = 30.0
    context: Annotated[
        str | None,
        Parameter(
            env_var="MAGNETAR_CONTEXT",
            help="The context whose addresses and token count where neither flag nor environment says otherwise; "
            "without, the current one (magnetar context use).",
            show_default=False,
        ),
    ] = None
    client_conf: Annotated[
        str | None,
        Parameter(
            env_var=["MAGNETAR_CLIENT_CONF", "PULSAR_CLIENT_CONF"],
            help="A client.conf of Pulsar, for what no context says.",
            show_default=False,
        ),
    ] = None
    no_color: Annotated[bool, flag("No colours. The environment's NO_COLOR does the same.")] = False
    no_input: Annotated[bool, flag("Never ask anything.")] = False
    quiet: Annotated[bool, flag("No steps on standard error; errors are still told.", "--quiet", "-q")] = False
    sink: Annotated[Output | None, Parameter(parse=False)] = None  # where a command that is watched writes to

    @property
    def out(self) -> Output:
        """Standard output, in the form that was asked for."""
        return Output(self.output, colors=self.colors) if self.sink is None else self.sink

    @property
    def colors(self) -> bool:
        return not self.no_color and not os.environ.get("NO_COLOR")

    def session(self, change: Change | None = None, *, unless: type[Refused] | None = None) -> Session:
        """`unless`: a refusal that says that there is nothing left to do."""
        from magnetar.cli.session import Session

        return Session(self, change, unless=unless)


@Parameter(name="*", group=CHANGING)
@dataclass(frozen=True)
class Traffic:
    """Of a command that sends or takes messages: it changes something for as long as it runs."""

    dry_run: Annotated[bool, flag("Show what would be done, do nothing.")] = False


@Parameter(name="*", group=CHANGING)
@dataclass(frozen=True)
class Change:
    """Of a command that changes something."""

    dry_run: Annotated[bool, flag("Show what would be sent, change nothing.")] = False
    wait: Annotated[
        bool,
        Parameter(
            negative="--no-wait",
            help="End when the work is done. Without, end when the broker has taken it; where it has done all by then, "
            "that is the same.",
        ),
    ] = True
    sure: Annotated[
        bool, flag("Do not ask. A command that asks needs it where there is no terminal.", "--yes", "-y")
    ] = False

    @property
    def yes(self) -> bool:
        return True


@Parameter(name="*", group=CHANGING)
@dataclass(frozen=True)
class Destruction(Change):
    """Of a command whose work cannot be taken back: it asks."""

    @property
    def yes(self) -> bool:
        return self.sure


IfNotExists = Annotated[bool, flag("Where it is there already, that is no error.")]
IfExists = Annotated[bool, flag("Where it is not there, that is no error.")]
Properties = Annotated[
    list[str] | None, Parameter(name=["--property", "-p"], negative="", help="name=value, once for each property.")
]


def properties(pairs: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Misuse("a property is name=value", property=pair)
        found[name] = value
    return found


COMMON = Common()
TRAFFIC = Traffic()
CHANGE = Change()
DESTRUCTION = Destruction()
