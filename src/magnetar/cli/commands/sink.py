"""`magnetar sink`: lists, shows and deletes sinks, the exactly-once writers of topics.

Writers create sinks (a Spark query by its id or `sinkId`, a job by `txnAppId`); no command here creates one.
"""

from __future__ import annotations

from magnetar.base.errors import NotFound
from magnetar.base.names import full_name
from magnetar.cli.options import COMMON, DESTRUCTION, Common, Destruction, IfExists
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, Lag, Moment
from magnetar.client.documents.sinks import SinkStatus

COLUMNS = ("SINK", "TOPIC", "BATCH", "PUBLISHING", "OPEN STAGES", "CHANGED", "TROUBLE")
STAGE_COLUMNS = ("BATCH", "STAGE", "MESSAGES", "PUBLISHED")


def list_(namespace: str = "public/default", /, *, common: Common = COMMON) -> None:
    """List the sinks that write to topics of a namespace.

    Parameters
    ----------
    namespace
        Namespace, as tenant/namespace.

    Examples
    --------
    $ magnetar sink list
    $ magnetar sink list public/default -o json
    """
    with common.session() as session:
        session.about(namespace=namespace)
        found = session.admin.sinks.list(namespace)
        rows: list[tuple[Cell, ...]] = [
            (
                one.sink,
                one.topic,
                one.lastBatch if one.lastBatch >= 0 else None,
                Lag(one.backlogMessages),
                one.openStages,
                Moment(one.changedMs),
                one.trouble or None,
            )
            for one in found
        ]
        session.show(session.document, TableData(COLUMNS, rows, optional=frozenset(("TROUBLE",))), lines=found)


def show(topic: str, name: str, /, *, common: Common = COMMON) -> None:
    """Show a sink: its last committed batch, and the committed messages that are not published to the topic yet.

    Parameters
    ----------
    topic
        Topic that the sink writes to.
    name
        Sink name.

    Examples
    --------
    $ magnetar sink show topic://public/default/clicks nightly
    """
    with common.session() as session:
        whole = full_name(topic)
        session.about(topic=whole)
        one = session.admin.sinks.get(whole, name)
        rows: list[tuple[Cell, ...]] = [
            (each.batch, each.stage, each.messages, each.published) for each in one.publishing
        ]
        optional = frozenset(("run", "trouble"))
        sheets = [TableData(STAGE_COLUMNS, rows)] if rows else []
        session.show(session.document, KeyValues(_facts(one), optional=optional), *sheets)


def _facts(one: SinkStatus) -> dict[str, Cell]:
    return {
        "sink": one.sink,
        "topic": one.topic,
        "last batch": one.lastBatch if one.lastBatch >= 0 else None,
        "publishing": Lag(one.backlogMessages),
        "open stages": one.openStages,
        "to be deleted": one.dropped,
        "changed": Moment(one.changedMs),
        "run": one.run or None,
        "trouble": one.trouble or None,
    }


def delete(
    topic: str,
    name: str,
    /,
    *,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a sink. The broker forgets its committed batches and drops its unpublished messages.

    Parameters
    ----------
    topic
        Topic that the sink writes to.
    name
        Sink name.

    Examples
    --------
    $ magnetar sink delete topic://public/default/clicks nightly --yes
    """
    with common.session(change, unless=NotFound if if_exists else None) as session:
        whole = full_name(topic)
        session.about(topic=whole)
        one = session.admin.sinks.get(whole, name)
        words = f"deletes sink {name} of {whole} and loses {one.backlogMessages} committed, unpublished messages"
        session.confirm(name, words)
        session.do(f"delete sink {name} of {whole}", lambda: session.admin.sinks.delete(whole, name))


VERBS = {"list": list_, "show": show, "delete": delete}
