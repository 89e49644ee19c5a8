"""Collects the values of every source and passes the resolved settings to the running command.

`gather` reads the files that exist. `filled` is the only connection to the command line's library: it sets values of a
context or of `client.conf` that neither flags nor environment set. A broken file or a missing context ends the command,
except for commands on these files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from magnetar.base.errors import MagnetarError, Misuse, NotFound
from magnetar.cli.settings import client_conf as settings_client_conf
from magnetar.cli.settings import context_file
from magnetar.cli.settings.context_document import Contexts
from magnetar.cli.settings.resolve import (
    KNOBS,
    Setting,
    SettingValue,
    Source,
    by_default,
    by_environment,
    by_flags,
    doubts,
    resolve,
)

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection

    from magnetar.cli.exit_codes import ErrorWithHint

FORGIVING = ("context", "config")  # nouns of these files: they report problems and continue


class Configuration(NamedTuple):
    settings: dict[str, Setting]
    contexts: Contexts | None = None
    conf: settings_client_conf.ClientConf | None = None
    problems: tuple[MagnetarError, ...] = ()
    doubts: tuple[str, ...] = ()

    def value(self, name: str) -> str:
        return self.settings[name].value

    def given(self) -> dict[str, str]:
        """The values of this command's flags that a context can store."""
        return {name: one.value for name, one in self.settings.items() if one.is_given and KNOBS[name].in_contexts}


CURRENT: ContextVar[Configuration] = ContextVar("configuration")  # configuration of the running command


def gather(flags: Mapping[str, str], environment: Mapping[str, str]) -> Configuration:
    """Raises no error: problems are part of the result."""
    problems: list[MagnetarError] = []
    path = context_file.place(environment)
    contexts: Contexts | None = None
    try:
        contexts = context_file.load(path)
    except MagnetarError as error:
        problems.append(error)
    chosen = _chosen("context", flags, environment)
    if contexts is not None and contexts.current:
        where = f"{path}:{contexts.current_line}" if contexts.current_line else path
        chosen.append(SettingValue(Source.CONTEXT, where, contexts.current))
    context = resolve("context", chosen)
    by_context: dict[str, list[SettingValue]] = {}
    if contexts is not None and context.won is not None and context.value:
        try:
            by_context = contexts.said(context.value)
        except MagnetarError as error:
            error.facts["by"] = context.won.where
            problems.append(error)
    client_conf = resolve("client_conf", _chosen("client_conf", flags, environment))
    conf = None
    if client_conf.won is not None and client_conf.value:
        try:
            conf = _conf(client_conf.won)
        except MagnetarError as error:
            problems.append(error)
    settings = {"context": context, "client_conf": client_conf}
    for name in KNOBS:
        if name not in settings:
            values = [*_chosen(name, flags, environment), *by_context.get(name, [])]
            values += conf.said.get(name, []) if conf else []
            settings[name] = resolve(name, [*values, *by_default(name)])
    texts = [*doubts(settings), *(conf.doubts if conf else [])]
    holds_token = contexts is not None and any("token" in one.fields for one in contexts.all.values())
    if holds_token and context_file.is_open_to_others(path):
        texts.append(f"{path} contains a token and other users can read it: run chmod 600 {path}")
    return Configuration(settings, contexts, conf, tuple(problems), tuple(texts))


def revealed(setting: SettingValue, environment: Mapping[str, str]) -> str:
    """The value itself, read from the file or the variable."""
    if not setting.held:
        return setting.value
    if setting.held == "env":
        value = environment.get(setting.value, "")
        if not value:
            raise Misuse(f"the token must be in {setting.value}, but this variable is not set", file=setting.where)
        return value
    try:
        with open(os.path.expanduser(setting.value), encoding="utf-8") as file:
            value = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise Misuse(f"the token cannot be read from {setting.value}: {why}", file=setting.where) from None
    if not value:
        raise Misuse(f"the token must be in {setting.value}, but it is empty", file=setting.where)
    return value


def helped(problem: MagnetarError, configuration: Configuration) -> ErrorWithHint:
    """Adds the next command to the problem."""
    from difflib import get_close_matches

    from magnetar.cli.exit_codes import ErrorWithHint

    if isinstance(problem, NotFound) and configuration.contexts is not None:
        near = get_close_matches(configuration.value("context"), configuration.contexts.all, 3)
        return ErrorWithHint(problem, near=near, run="magnetar context list, or the same command with --context NAME")
    file = str(problem.facts.get("file", ""))
    return ErrorWithHint(problem, run=f"edit {file}, then run magnetar config explain" if file else "")


def filled(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """The command line's library calls it for every command, after flags and environment."""
    from cyclopts import Token

    flags_ = {KNOBS[name].flag: name for name in KNOBS}
    ours: dict[str, Any] = {flags_[one.name]: one for one in arguments if one.name in flags_}
    if "context" not in ours:
        return  # the command sends no request to a broker
    flags: dict[str, str] = {}
    for name, argument in ours.items():
        if argument.tokens and argument.tokens[0].source == "env":
            argument.tokens.clear()  # read below, where an empty value counts as unset
        elif argument.tokens:
            flags[name] = argument.tokens[-1].value
    configuration = gather(flags, os.environ)
    if configuration.problems and not (commands and commands[0] in FORGIVING):
        raise helped(configuration.problems[0], configuration)
    for name, argument in ours.items():
        won = configuration.settings[name].won
        if won is None or won.layer is Source.DEFAULT:
            continue
        if won.layer is Source.FLAG:
            if not won.value and name in ("token", "context", "client_conf"):
                argument.tokens.clear()  # unset explicitly
            continue
        if won.held and commands and commands[0] in FORGIVING:
            continue
        try:
            value = revealed(won, os.environ)
        except Misuse as error:
            raise helped(error, configuration) from None
        argument.append(Token(keyword=won.where, value=value, source=won.layer.title))
    CURRENT.set(configuration)


def _chosen(name: str, flags: Mapping[str, str], environment: Mapping[str, str]) -> list[SettingValue]:
    return [*by_flags(name, flags), *by_environment(name, environment)]


def _conf(value: SettingValue) -> settings_client_conf.ClientConf:
    path = os.path.expanduser(value.value)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return settings_client_conf.read(file.read(), path)
    except OSError as error:
        raise Misuse(f"client.conf cannot be read: {error.strerror}", file=path, by=value.where) from None
