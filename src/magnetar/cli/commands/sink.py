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
        sinks = session.admin.sinks.list(namespace)
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
            for one in sinks
        ]
        session.show(session.document, TableData(COLUMNS, rows, optional=frozenset(("TROUBLE",))), lines=sinks)


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
        status = session.admin.sinks.get(whole, name)
        rows: list[tuple[Cell, ...]] = [
            (each.batch, each.stage, each.messages, each.published) for each in status.publishing
        ]
        optional = frozenset(("run", "trouble"))
        sheets = [TableData(STAGE_COLUMNS, rows)] if rows else []
        session.show(session.document, KeyValues(_facts(status), optional=optional), *sheets)


def _facts(status: SinkStatus) -> dict[str, Cell]:
    return {
        "sink": status.sink,
        "topic": status.topic,
        "last batch": status.lastBatch if status.lastBatch >= 0 else None,
        "publishing": Lag(status.backlogMessages),
        "open stages": status.openStages,
        "to be deleted": status.dropped,
        "changed": Moment(status.changedMs),
        "run": status.run or None,
        "trouble": status.trouble or None,
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
        status = session.admin.sinks.get(whole, name)
        words = f"deletes sink {name} of {whole} and loses {status.backlogMessages} committed, unpublished messages"
        session.confirm(name, words)
        session.do(f"delete sink {name} of {whole}", lambda: session.admin.sinks.delete(whole, name))


VERBS = {"list": list_, "show": show, "delete": delete}
