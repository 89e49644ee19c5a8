"""`magnetar context`: named addresses of brokers, so that commands need no flags for them.

A context holds values of --url, --admin-url, --token and --timeout. `settings/context_file.py` reads and writes the
file, `settings/context_document.py` edits its text; this module shows the results. It stores tokens on request and
never shows them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from magnetar.base.errors import Misuse, NotFound
from magnetar.cli.confirm import confirm
from magnetar.cli.exit_codes import ErrorWithHint, Exit, tell
from magnetar.cli.help.suggestions import alike
from magnetar.cli.options import CHANGE, COMMON, DESTRUCTION, Change, Common, Destruction, flag
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell
from magnetar.cli.settings import client_conf, context_document
from magnetar.cli.settings.context_document import Context, Contexts
from magnetar.cli.settings.context_fields import check_addresses, document_of, public, safe, token_of
from magnetar.cli.settings.context_file import change as changed
from magnetar.cli.settings.context_file import load, place
from magnetar.cli.settings.resolve import KNOBS, SettingValue, Source
from magnetar.cli.settings.sources import CURRENT, gather, helped, revealed
from magnetar.client.connection.address import without_password

TokenFile = Annotated[
    Path | None, Parameter(help="File that holds the token. The context stores its path, not the token.")
]
Use = Annotated[bool, flag("Make it the current context.")]


def list_(*, common: Common = COMMON) -> None:
    """List the contexts. A mark shows the context in use: the current one, unless --context or MAGNETAR_CONTEXT names
    another.

    Examples
    --------
    $ magnetar context list
    $ magnetar context list -o json
    """
    contexts = _load()
    used = _used()
    rows: list[tuple[Cell, ...]] = [
        (
            one.name,
            "*" if one.name == used else None,
            public(one).get("url"),
            public(one).get("admin_url"),
            token_of(one),
        )
        for one in contexts.all.values()
    ]
    document = [document_of(one, used) for one in contexts.all.values()]
    common.out.show(document, TableData(("CONTEXT", "USED", "URL", "ADMIN URL", "TOKEN"), rows))


def show(name: str | None = None, /, *, common: Common = COMMON) -> None:
    """Show the fields of a context, and the file that holds them.

    Parameters
    ----------
    name
        Context name. Default: the context in use.

    Examples
    --------
    $ magnetar context show
    $ magnetar context show prod
    """
    contexts = _load()
    context = _get(contexts, name or _used_or_none(contexts))
    where = f"{contexts.path}:{context.line}" if context.line else contexts.path
    facts: dict[str, Cell] = {"context": context.name, **public(context), "token": token_of(context), "file": where}
    common.out.show(
        document_of(context, _used()), KeyValues(facts, optional=frozenset(("token",))), names=[context.name]
    )


def use(name: str, /, *, change: Change = CHANGE, common: Common = COMMON) -> None:
    """Make a context the current one.

    Parameters
    ----------
    name
        Context name.

    Examples
    --------
    $ magnetar context use prod
    """
    contexts = _load()
    _get(contexts, name)
    plan = {"current": name}
    _do(
        f"use {name}",
        plan,
        lambda text: context_document.using(text, contexts.path, name),
        common=common,
        change=change,
    )
    chosen = CURRENT.get().settings["context"].won
    if chosen is not None and chosen.layer is not Source.CONTEXT and chosen.value != name:
        tell(f"{chosen.where} selects another context, {chosen.value or 'none'}, and takes precedence")


def add(
    name: str,
    /,
    *,
    token_file: TokenFile = None,
    use: Use = False,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Add a context with the values of --url, --admin-url, --token and --timeout.

    A token on the command line stays in the shell's history. --token-file avoids this.

    Parameters
    ----------
    name
        Context name: letters, digits, - and _.

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
        Parameter(negative="", help="Field to remove (repeatable)."),
    ] = None,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Change fields of a context to the values of --url, --admin-url, --token and --timeout. Other fields stay
    unchanged.

    Parameters
    ----------
    name
        Context name.

    Examples
    --------
    $ magnetar context edit prod --admin-url http://broker-2:8080
    $ magnetar context edit prod --unset token
    """
    contexts = _load()
    context = _get(contexts, name)
    fields: dict[str, str | float | None] = {**_given(token_file)}
    for field in unset or []:
        key = field.replace("-", "_")
        if key in fields:
            raise Misuse(f"{KNOBS[key].flag} must be either set or unset")
        fields[key] = None
    if "token" in fields or "token_file" in fields:  # one replaces the other
        fields = {**{key: None for key in ("token", "token_file") if key in context.fields}, **fields}
    fields = {key: value for key, value in fields.items() if value is not None or key in context.fields}
    if not fields and not unset:
        run = f"magnetar context edit {name} --url pulsar://host:6650, or --unset"
        raise ErrorWithHint(Misuse("nothing to change: pass a field to set or unset"), run=run)
    plan = {"context": name, **{key: safe(key, value) for key, value in fields.items()}}
    _do(
        f"edit {name}",
        plan,
        lambda text: context_document.edited(text, contexts.path, name, fields),
        common=common,
        change=change,
    )


def remove(name: str, /, *, change: Destruction = DESTRUCTION, common: Common = COMMON) -> None:
    """Remove a context. If it is the current one, no context is current afterwards.

    Parameters
    ----------
    name
        Context name.

    Examples
    --------
    $ magnetar context remove prod --yes
    """
    contexts = _load()
    context = _get(contexts, name)
    secret = " with its token" if "token" in context.fields else ""
    confirm(name, f"removes the context {name}{secret}", common=common, change=change)
    plan = {"context": name, "removed": True}
    _do(
        f"remove {name}",
        plan,
        lambda text: context_document.removed(text, contexts.path, name),
        common=common,
        change=change,
    )
    if contexts.current == name and not change.dry_run:
        tell("it was the current context: now no context is current", run="magnetar context use NAME")


def probe(name: str | None = None, /, *, common: Common = COMMON) -> Exit:
    """Connect to the broker and to its REST interface, and show versions and latencies. The exit code is 7 if a
    connection failed.

    Parameters
    ----------
    name
        Name of a stored context. Default: the settings that other commands use now.

    Examples
    --------
    $ magnetar context test
    $ magnetar context test prod
    """
    from magnetar.cli.settings.probe import reach

    configuration = CURRENT.get()
    if name is not None:
        _get(_load(), name)
        kept = {key: value for key, value in os.environ.items() if key in ("HOME", "XDG_CONFIG_HOME")}
        configuration = gather({"context": name}, kept)
    for problem in configuration.problems:
        raise helped(problem, configuration)
    token = configuration.settings["token"].won
    secret = revealed(token, os.environ) if token is not None else None
    answers = reach(
        configuration.value("url"),
        configuration.value("admin_url"),
        token=secret or None,
        timeout_s=float(configuration.value("timeout")),
    )
    rows: list[tuple[Cell, ...]] = [
        (one.what, without_password(one.url), "ok" if one.ok else "failed", one.version, one.latency) for one in answers
    ]
    columns = ("WHAT", "URL", "STATE", "VERSION", "LATENCY")
    document = [one.document for one in answers]
    common.out.show(document, TableData(columns, rows, optional=frozenset(("VERSION", "LATENCY"))))
    for answer in answers:
        if answer.why:
            tell(f"{answer.what} did not answer", why=answer.why)
    return Exit.OK if all(one.ok for one in answers) else Exit.CHECK_FAILED


def import_client_conf(
    name: str, file: Path, /, *, use: Use = False, change: Change = CHANGE, common: Common = COMMON
) -> None:
    """Create a context from Pulsar's client.conf: its two addresses and its token.

    Parameters
    ----------
    name
        Name of the new context.
    file
        Path of the client.conf.

    Examples
    --------
    $ magnetar context import-client-conf prod conf/client.conf
    """
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Misuse(f"client.conf cannot be read: {error.strerror}", file=str(file)) from None
    conf = client_conf.read(text, str(file))
    fields: dict[str, str | float] = {}
    for setting, values in conf.said.items():
        if values:
            key, value = _stored(setting, values[0])
            fields[key] = value
    if not fields:
        raise Misuse("client.conf must contain a broker address or a token: this file has neither", file=str(file))
    _add(name, fields, use=use, change=change, common=common)
    if not common.quiet:
        for doubt in conf.doubts:
            tell(doubt)
        if conf.ignored:
            tell(f"not imported: {', '.join(one.key for one in conf.ignored)}")


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


def _get(contexts: Contexts, name: str) -> Context:
    try:
        return contexts.get(name)
    except NotFound as error:
        near = alike(name, contexts.all)
        run = f"the same command with {near[0]}" if near else f"magnetar context list, or magnetar context add {name}"
        raise ErrorWithHint(error, near=near, run=run) from None


def _used() -> str:
    """The name of the context in use, even if no such context exists."""
    return CURRENT.get().value("context")


def _used_or_none(contexts: Contexts) -> str:
    used = _used()
    if not used:
        raise ErrorWithHint(NotFound("no context is in use", file=contexts.path), run="magnetar context use NAME")
    return used


def _given(token_file: Path | None) -> dict[str, str | float]:
    """The flags of this command, as a context stores them."""
    fields: dict[str, str | float] = {}
    for name, value in CURRENT.get().given().items():
        if not value:
            raise Misuse(f"{KNOBS[name].flag} must not be empty: use --unset to remove a value")
        fields[name] = float(value) if name == "timeout" else value
    if token_file is not None:
        if "token" in fields:
            raise Misuse("--token and --token-file exclude each other: pass one of them")
        fields["token_file"] = os.path.abspath(token_file.expanduser())
    check_addresses(fields)
    return fields


def _stored(setting: str, value: SettingValue) -> tuple[str, str | float]:
    if value.held == "file":
        return "token_file", os.path.abspath(os.path.expanduser(value.value))
    return setting, revealed(value, os.environ)


def _add(name: str, fields: Mapping[str, str | float], *, use: bool, change: Change, common: Common) -> None:
    context_document.check_name(name)
    if not fields:
        run = f"magnetar context add {name} --url pulsar://host:6650 --admin-url http://host:8080"
        raise ErrorWithHint(Misuse("the context is empty: pass the address of the broker"), run=run)
    path = place(os.environ)

    def added(text: str) -> str:
        text = context_document.added(text, path, name, fields)
        return context_document.using(text, path, name) if use else text

    plan = {"context": name, **{key: safe(key, value) for key, value in fields.items()}}
    plan |= {"current": True} if use else {}
    _do(f"add {name}", plan, added, common=common, change=change)
    missing = [key for key in ("url", "admin_url") if key not in fields]
    if missing and not common.quiet:
        tell(
            f"it has no {missing[0]}: client.conf or the default applies, {KNOBS[missing[0]].default}",
            run=f"magnetar context edit {name} {KNOBS[missing[0]].flag} ...",
        )


def _do(what: str, plan: dict[str, Any], edit: Callable[[str], str], *, common: Common, change: Change) -> None:
    """Changes the file. A dry run does everything except the write."""
    path = place(os.environ)
    step: dict[str, Any] = {"step": what, "done": True}
    named = [what.rpartition(" ")[2]]
    if change.dry_run:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError:
            text = context_document.HEAD
        edit(text)
        step = {"step": what, "planned": {"file": path, **plan}}
        rows: list[tuple[Cell, ...]] = [(key, str(value)) for key, value in plan.items()]
        common.out.show([step], TableData(("FIELD", "VALUE"), rows, title=f"Would write to {path}:"), names=named)
        return
    changed(path, edit)
    if not common.quiet:
        sys.stderr.write(f"{what} ✓\n")
    if common.output != "table":
        common.out.show([step], names=named)
