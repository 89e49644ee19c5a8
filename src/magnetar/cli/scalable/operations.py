"""Splits and merges as operations: starts them, reports each step of the broker, and optionally waits for the end.

If a broker does not answer for a while, the command asks again. The topic's record holds the operation, so it continues
without the command. After `--timeout`, the command ends with code 6 and names the unfinished operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magnetar.base.errors import Conflict, TimedOut, Unavailable, Unknown
from magnetar.cli.exit_codes import ErrorWithHint
from magnetar.cli.output.formats import KeyValues, TableData
from magnetar.cli.output.values import Cell, Duration, age, iso
from magnetar.cli.session import CommandSession
from magnetar.cli.sleep import InterruptibleSleep
from magnetar.client.documents.scalable import Operation

POLL_S_MIN, POLL_S_MAX = 0.02, 0.5  # a reshape takes some ten milliseconds; a slow one is polled less often
WORDS = {  # steps as shown to people; "" for a step that another one implies
    "intended": "plan written",
    "found": "plan found",
    "child_provisioned": "",
    "provisioned": "children created",
    "checked": "subscriptions checked",
    "parent_sealed": "",
    "sealed": "parents sealed",
    "seeded": "producers moved",
    "committed": "layout published",
    "resumed": "resumed",
    "overtaken": "subscriptions changed during the operation",
}
ENDED = {"DONE": True, "REFUSED": False, "ABORTED": False}  # whether the operation succeeded


def operate(session: CommandSession, topic: str, what: str, begin: Callable[[], Operation | None]) -> Operation | None:
    """Starts the operation and reports its steps. Returns the finished operation, or the started one with --no-wait.
    Returns None in a dry run, or if the broker does not report operations.
    """
    begun = session.attempt(what, begin)
    if begun is None:
        if not session.is_dry:
            session.step({"step": what, "done": True, "ms": session.took_ms}, f"{what} ✓ {age(session.took_ms / 1000)}")
        return None
    if not session.waits:
        session.step(_step(begun, "begun", 0), f"{what}: started as {begun.op}")
        return begun
    session.say(f"{what}:", more=True)
    with InterruptibleSleep() as pause:
        done = _followed(session, topic, begun, pause)
    took_ms = _ms(done, done.steps[-1].atMs) if done.steps else 0
    children = ", ".join(str(id) for id in done.childIds)
    if not ENDED[done.phase]:
        session.step(_step(done, done.phase.lower(), took_ms), f" {done.phase.lower()} ✗ {age(took_ms / 1000)}")
        raise Conflict(f"{what} failed: {done.error or done.phase.lower()}", op=done.op)
    session.step({**_step(done, "done", took_ms), "children": done.childIds}, f" {children} ✓ {age(took_ms / 1000)}")
    return done


def operation_parts(done: Operation) -> list[KeyValues | TableData]:
    facts: dict[str, Cell] = {
        "operation": done.op,
        "phase": done.phase,
        "parents": ", ".join(str(id) for id in done.parentIds),
        "children": ", ".join(str(id) for id in done.childIds),
        "took": _took(done),
    }
    return [KeyValues(facts, optional=frozenset(("parents", "children", "took")))]


def operations_sheet(operations: list[Operation]) -> TableData:
    rows: list[tuple[Cell, ...]] = [
        (
            one.op,
            one.kind,
            one.phase,
            ", ".join(str(id) for id in one.parentIds),
            ", ".join(str(id) for id in one.childIds),
            _took(one),
        )
        for one in operations
    ]
    return TableData(("OPERATION", "KIND", "PHASE", "PARENTS", "CHILDREN", "TOOK"), rows)


def _followed(session: CommandSession, topic: str, seen: Operation, pause: Callable[[float], None]) -> Operation:
    """Waits until the operation has ended, and reports each new step."""
    reported, waited_s, wait_s = 0, 0.0, POLL_S_MIN
    while True:
        for step in seen.steps[reported:]:
            words = WORDS.get(step.name, step.name)
            document = _step(seen, step.name, _ms(seen, step.atMs), step.atMs)
            session.step(document, f" {words} ✓ ·" if words else "", more=True)
        reported = max(reported, len(seen.steps))
        if seen.phase in ENDED:
            return seen
        if waited_s >= session.common.timeout:
            late = TimedOut(
                f"{seen.op} has not finished after {session.common.timeout:g} s: the broker continues it",
                phase=seen.phase,
            )
            raise ErrorWithHint(late, run=f"magnetar segment history {topic} --watch")
        pause(wait_s)
        waited_s, wait_s = waited_s + wait_s, min(1.5 * wait_s, POLL_S_MAX)
        try:
            seen = session.admin.scalable.operation(topic, seen.op)
        except (Unavailable, Unknown):
            waited_s += session.common.timeout / 10  # estimate: each of these requests took time itself
        else:
            waited_s += session.took_ms / 1000


def _step(operation: Operation, name: str, ms: int, at_ms: int = 0) -> dict[str, Any]:
    at = at_ms or (operation.steps[-1].atMs if operation.steps else 0)
    return {"operation": operation.op, "step": name, "at": iso(at) if at else None, "ms": ms}


def _ms(operation: Operation, at_ms: int) -> int:
    return at_ms - operation.steps[0].atMs


def _took(operation: Operation) -> Duration | None:
    return Duration(_ms(operation, operation.steps[-1].atMs) / 1000) if operation.steps else None
