"""`magnetar context`: named places where brokers are, so that commands need no addresses.

A context holds what flags say otherwise: --url, --admin-url, --token, --timeout. The file is `contextfile`'s, its text
`contexts`'; this module lays out and tells. Tokens are stored because that is asked for, and are never shown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from magnetar.base.errors import Misuse, NotFound
from magnetar.cli import clientconf, contexts
from magnetar.cli.cells import Cell
from magnetar.cli.consent import confirm
from magnetar.cli.contextfacts import check_addresses, document_of, public, safe, token_of
from magnetar.cli.contextfile import change as changed
from magnetar.cli.contextfile import load, place
from magnetar.cli.contexts import Context, Contexts
from magnetar.cli.exits import Exit, Explained, tell
from magnetar.cli.layers import KNOBS, Layer, Said
from magnetar.cli.nearby import alike
from magnetar.cli.options import CHANGE, COMMON, DESTRUCTION, Change, Common, Destruction, flag
from magnetar.cli.output import Facts, Sheet
from magnetar.cli.sources import CURRENT, gather, helped, revealed
from magnetar.client.address import without_password

TokenFile = Annotated[
    Path | None, Parameter(help="A file that holds the token: the context remembers its path, not the token.")
]
Use = Annotated[bool, flag("Make it the current one.")]


def list_(*, common: Common = COMMON) -> None:
    """The contexts. The one in use has a mark: the current one, unless --context or MAGNETAR_CONTEXT name another.

    Examples
    --------
    $ magnetar context list
    $ magnetar context list -o json
    """
    found = _load()
    used = _used()
    rows: list[tuple[Cell, ...]] = [
        (
            one.name,
            "*" if one.name == used else None,
            public(one).get("url"),
            public(one).get("admin_url"),
            token_of(one),
        )
        for one in found.all.values()
    ]
    document = [document_of(one, used) for one in found.all.values()]
    common.out.show(document, Sheet(("CONTEXT", "USED", "URL", "ADMIN URL", "TOKEN"), rows))


def show(name: str | None = None, /, *, common: Common = COMMON) -> None:
    """What a context holds, and where that is written.

    Parameters
    ----------
    name
        The context; without, the one in use.

    Examples
    --------
    $ magnetar context show
    $ magnetar context show prod
    """
    found = _load()
    context = _get(found, name or _used_or_none(found))
    where = f"{found.path}:{context.line}" if context.line else found.path
    facts: dict[str, Cell] = {"context": context.name, **public(context), "token": token_of(context), "file": where}
    common.out.show(document_of(context, _used()), Facts(facts, optional=frozenset(("token",))), names=[context.name])


def use(name: str, /, *, change: Change = CHANGE, common: Common = COMMON) -> None:
    """Make a context the current one.

    Parameters
    ----------
    name
        The context.

    Examples
    --------
    $ magnetar context use prod
    """
    found = _load()
    _get(found, name)
    plan = {"current": name}
    _do(f"use {name}", plan, lambda text: contexts.using(text, found.path, name), common=common, change=change)
    chosen = CURRENT.get().settings["context"].won
    if chosen is not None and chosen.layer is not Layer.CONTEXT and chosen.value != name:
        tell(f"{chosen.where} names another one, {chosen.value or 'none'}, and has the last word")


def add(
    name: str,
    /,
    *,
    token_file: TokenFile = None,
    use: Use = False,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Add a context with what --url, --admin-url, --token and --timeout say.

    A token on the command line stays in the shell's history: --token-file does not.

    Parameters
    ----------
    name
        Its name: letters, digits, - and _.

    Examples
    --------
    $ magnetar context add prod --url pulsar://broker-1:6650 --admin-url http://broker-1:8080
    $ magnetar context add staging --admin-url http://staging:8080 --token-file token.txt --use
    """
    _add(name, _given(token_file), use=use, change=change, common=common)


def edit(
    name: str,
    /,
    *,
    token_file: TokenFile = None,
    unset: Annotated[
        list[Literal["url", "admin-url", "token", "timeout"]] | None,
        Parameter(negative="", help="What it is to hold no more, once for each."),
    ] = None,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Change what a context holds to what --url, --admin-url, --token and --timeout say; the rest stays.

    Parameters
    ----------
    name
        The context.

    Examples
    --------
    $ magnetar context edit prod --admin-url http://broker-2:8080
    $ magnetar context edit prod --unset token
    """
    found = _load()
    context = _get(found, name)
    fields: dict[str, str | float | None] = {**_given(token_file)}
    for one in unset or []:
        key = one.replace("-", "_")
        if key in fields:
            raise Misuse(f"{KNOBS[key].flag} is both given and to be unset")
        fields[key] = None
    if "token" in fields or "token_file" in fields:  # one takes the place of the other
        fields = {**{key: None for key in ("token", "token_file") if key in context.fields}, **fields}
    fields = {key: value for key, value in fields.items() if value is not None or key in context.fields}
    if not fields and not unset:
        run = f"magnetar context edit {name} --url pulsar://host:6650, or --unset"
        raise Explained(Misuse("nothing to change: say what the context is to hold"), run=run)
    plan = {"context": name, **{key: safe(key, value) for key, value in fields.items()}}
    _do(
        f"edit {name}", plan, lambda text: contexts.edited(text, found.path, name, fields), common=common, change=change
    )


def remove(name: str, /, *, change: Destruction = DESTRUCTION, common: Common = COMMON) -> None:
    """Remove a context. If it is the current one, none is current afterwards.

    Parameters
    ----------
    name
        The context.

    Examples
    --------
    $ magnetar context remove prod --yes
    """
    found = _load()
    context = _get(found, name)
    secret = " with its token" if "token" in context.fields else ""
    confirm(name, f"removes the context {name}{secret}", common=common, change=change)
    plan = {"context": name, "removed": True}
    _do(f"remove {name}", plan, lambda text: contexts.removed(text, found.path, name), common=common, change=change)
    if found.current == name and not change.dry_run:
        tell("it was the current one: now none is", run="magnetar context use NAME")


def probe(name: str | None = None, /, *, common: Common = COMMON) -> Exit:
    """Connect to the broker and to its REST interface, and say what answered and how fast. Exit code 7: not both did.

    Parameters
    ----------
    name
        The context, as it is stored; without, what a command would use now.

    Examples
    --------
    $ magnetar context test
    $ magnetar context test prod
    """
    from magnetar.cli.reach import reach

    found = CURRENT.get()
    if name is not None:
        _get(_load(), name)
        kept = {key: value for key, value in os.environ.items() if key in ("HOME", "XDG_CONFIG_HOME")}
        found = gather({"context": name}, kept)
    for problem in found.problems:
        raise helped(problem, found)
    token = found.settings["token"].won
    secret = revealed(token, os.environ) if token is not None else None
    answers = reach(
        found.value("url"), found.value("admin_url"), token=secret or None, timeout_s=float(found.value("timeout"))
    )
    rows: list[tuple[Cell, ...]] = [
        (one.what, without_password(one.url), "ok" if one.ok else "failed", one.version, one.latency) for one in answers
    ]
    columns = ("WHAT", "URL", "STATE", "VERSION", "LATENCY")
    document = [one.document for one in answers]
    common.out.show(document, Sheet(columns, rows, optional=frozenset(("VERSION", "LATENCY"))))
    for one in answers:
        if one.why:
            tell(f"{one.what} did not answer", why=one.why)
    return Exit.OK if all(one.ok for one in answers) else Exit.CHECK_FAILED


def import_client_conf(
    name: str, file: Path, /, *, use: Use = False, change: Change = CHANGE, common: Common = COMMON
) -> None:
    """Make a context of what Pulsar's client.conf says: its two addresses and its token.

    Parameters
    ----------
    name
        The new context's name.
    file
        The client.conf.

    Examples
    --------
    $ magnetar context import-client-conf prod conf/client.conf
    """
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Misuse(f"client.conf cannot be read: {error.strerror}", file=str(file)) from None
    conf = clientconf.read(text, str(file))
    fields: dict[str, str | float] = {}
    for setting, said in conf.said.items():
        if said:
            key, value = _stored(setting, said[0])
            fields[key] = value
    if not fields:
        raise Misuse("this file says neither where a broker is nor how to authenticate", file=str(file))
    _add(name, fields, use=use, change=change, common=common)
    if not common.quiet:
        for doubt in conf.doubts:
            tell(doubt)
        if conf.ignored:
            tell(f"not taken over: {', '.join(one.key for one in conf.ignored)}")


VERBS = {
    "list": list_,
    "show": show,
    "use": use,
    "add": add,
    "edit": edit,
    "remove": remove,
    "test": probe,
    "import-client-conf": import_client_conf,
}


def _load() -> Contexts:
    return load(place(os.environ))


def _get(found: Contexts, name: str) -> Context:
    try:
        return found.get(name)
    except NotFound as error:
        near = alike(name, found.all)
        run = f"the same with {near[0]}" if near else f"magnetar context list, or magnetar context add {name}"
        raise Explained(error, near=near, run=run) from None


def _used() -> str:
    """The one in use, even where there is none of that name."""
    return CURRENT.get().value("context")


def _used_or_none(found: Contexts) -> str:
    used = _used()
    if not used:
        raise Explained(NotFound("no context is in use", file=found.path), run="magnetar context use NAME")
    return used


def _given(token_file: Path | None) -> dict[str, str | float]:
    """What flags of this command say, as a context stores it."""
    fields: dict[str, str | float] = {}
    for name, value in CURRENT.get().given().items():
        if not value:
            raise Misuse(f"{KNOBS[name].flag} is empty: to forget a value, --unset")
        fields[name] = float(value) if name == "timeout" else value
    if token_file is not None:
        if "token" in fields:
            raise Misuse("--token and --token-file are both given: one of them")
        fields["token_file"] = os.path.abspath(token_file.expanduser())
    check_addresses(fields)
    return fields


def _stored(setting: str, said: Said) -> tuple[str, str | float]:
    if said.held == "file":
        return "token_file", os.path.abspath(os.path.expanduser(said.value))
    return setting, revealed(said, os.environ)


def _add(name: str, fields: Mapping[str, str | float], *, use: bool, change: Change, common: Common) -> None:
    contexts.check_name(name)
    if not fields:
        run = f"magnetar context add {name} --url pulsar://host:6650 --admin-url http://host:8080"
        raise Explained(Misuse("an empty context: say where the broker is"), run=run)
    path = place(os.environ)

    def added(text: str) -> str:
        text = contexts.added(text, path, name, fields)
        return contexts.using(text, path, name) if use else text

    plan = {"context": name, **{key: safe(key, value) for key, value in fields.items()}}
    plan |= {"current": True} if use else {}
    _do(f"add {name}", plan, added, common=common, change=change)
    missing = [key for key in ("url", "admin_url") if key not in fields]
    if missing and not common.quiet:
        tell(
            f"it has no {missing[0]}: client.conf or the default counts, {KNOBS[missing[0]].default}",
            run=f"magnetar context edit {name} {KNOBS[missing[0]].flag} ...",
        )


def _do(what: str, plan: dict[str, Any], edit: Callable[[str], str], *, common: Common, change: Change) -> None:
    """One change of the file, or in a dry run all of it but the writing."""
    path = place(os.environ)
    step: dict[str, Any] = {"step": what, "done": True}
    named = [what.rpartition(" ")[2]]
    if change.dry_run:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError:
            text = contexts.HEAD
        edit(text)
        step = {"step": what, "planned": {"file": path, **plan}}
        rows: list[tuple[Cell, ...]] = [(key, str(value)) for key, value in plan.items()]
        common.out.show([step], Sheet(("FIELD", "VALUE"), rows, title=f"Would write to {path}:"), names=named)
        return
    changed(path, edit)
    if not common.quiet:
        sys.stderr.write(f"{what} ✓\n")
    if common.output != "table":
        common.out.show([step], names=named)
