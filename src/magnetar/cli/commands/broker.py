"""`magnetar broker`: version and health of a broker, its current settings, and its connected clients."""

from __future__ import annotations

from typing import Annotated

from magnetar.base.errors import MagnetarError, NotFound
from magnetar.cli.exit_codes import ErrorWithHint
from magnetar.cli.help.suggestions import alike
from magnetar.cli.options import COMMON, Common, flag
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, Moment


def show(*, common: Common = COMMON) -> None:
    """Show version, addresses, health and clients of the broker at --admin-url.

    Examples
    --------
    $ magnetar broker show
    """
    with common.session() as session:
        admin = session.admin.brokers
        settings = admin.settings()
        try:
            connections = admin.connections()
        except NotFound:
            connections = []  # Apache Pulsar does not report its connections
        health = "ok"
        try:
            admin.healthy()
        except MagnetarError as error:
            health = f"not healthy: {error.what}"
        version, brokers, leader = admin.version(), admin.names(), admin.leader()
        authentication = settings.get("authenticationEnabled") == "true"
        counts = {
            "connections": len(connections),
            "producers": sum(one.producers for one in connections),
            "consumers": sum(one.consumers for one in connections),
        }
        about = {"version": version, "cluster": settings.get("clusterName"), "health": health}
        document = {**about, "brokers": brokers, "leader": leader, **counts, "authentication": authentication}
        facts: dict[str, Cell] = {
            **about,
            "brokers": ", ".join(brokers),
            "leader": leader.serviceUrl,
            **counts,
            "authentication": "authenticationEnabled is set"
            if authentication
            else "none: every client that reaches the broker may do anything",
        }
        session.show(document, KeyValues(facts), names=brokers)


def config(
    name: str = "",
    /,
    *,
    changed: Annotated[bool, flag("List only settings that were changed while the broker runs.")] = False,
    common: Common = COMMON,
) -> None:
    """List the current settings of the broker. DYNAMIC settings can be changed over REST while it runs.

    Parameters
    ----------
    name
        Text that the setting's name must contain. Without it, the command lists all settings.

    Examples
    --------
    $ magnetar broker config
    $ magnetar broker config retention
    """
    with common.session() as session:
        admin = session.admin.brokers
        dynamic, overrides = set(admin.dynamic_settings()), admin.changed_settings()
        values = admin.settings()
        settings = {
            key: value
            for key, value in sorted(values.items())
            if name.lower() in key.lower() and (not changed or key in overrides)
        }
        if not settings and name:
            missing = NotFound(f"no setting contains {name!r} in its name")
            near = alike(name, values)
            raise ErrorWithHint(missing, near=near, run=f"magnetar broker config {near[0] if near else ''}".strip())
        rows: list[tuple[Cell, ...]] = [
            (key, value or None, key in dynamic, key in overrides or None) for key, value in settings.items()
        ]
        session.show(
            settings, TableData(("SETTING", "VALUE", "DYNAMIC", "CHANGED"), rows, optional=frozenset(("CHANGED",)))
        )


def connections(*, common: Common = COMMON) -> None:
    """List the clients that are connected to the broker, longest connection first.

    Examples
    --------
    $ magnetar broker connections
    $ magnetar broker connections --watch
    """
    with common.session() as session:
        connections = session.admin.brokers.connections()
        rows: list[tuple[Cell, ...]] = [
            (
                one.address,
                one.clientVersion or None,
                Moment(one.connectedSince),
                one.producers,
                one.consumers,
                one.watches,
                "yes" if one.congested else None,
            )
            for one in connections
        ]
        columns = ("ADDRESS", "CLIENT", "CONNECTED", "PRODUCERS", "CONSUMERS", "WATCHES", "SLOW")
        session.show(session.document, TableData(columns, rows, optional=frozenset(("WATCHES", "SLOW"))))


VERBS = {"show": show, "config": config, "connections": connections}
