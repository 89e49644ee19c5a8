"""`magnetar standalone`: runs a broker in this process, with its data in one folder.

Checks its arguments before it loads large modules, chooses the event loop (no other module does), and runs until
SIGTERM or SIGINT. It connects the node with its REST server and does not know their internals.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

if TYPE_CHECKING:
    from magnetar.base.errors import MagnetarError
    from magnetar.cli.exit_codes import Exit

Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))]


def standalone(
    *,
    data: Annotated[Path, Parameter(validator=validators.Path(file_okay=False))] = Path("data"),
    port: Port | None = None,
    http_port: Port | None = None,
    bind_address: str | None = None,
    conf: Annotated[Path | None, Parameter(validator=validators.Path(exists=True, dir_okay=False))] = None,
) -> int:
    """Run a broker in this process. It stops on SIGTERM or Ctrl-C, with all data on disk.

    When the broker is ready, it prints a message on a terminal, or one line of JSON in a pipe.

    Parameters
    ----------
    data
        Folder for journal, ledgers and metadata. It is created if it does not exist. Only one broker at a time can use
        it.
    port
        Port for clients, as pulsar://localhost:PORT; 0 selects a free port. Default: the value in CONF, else 6650.
    http_port
        Port for the REST interface and the metrics; 0 selects a free port. Default: the value in CONF, else 8080.
    bind_address
        Address to listen on, for clients and for REST; 0.0.0.0 lets other machines connect. Default: the value in CONF,
        else 127.0.0.1, for programs on this machine only.
    conf
        A standalone.conf or broker.conf in Pulsar's format.

    Examples
    --------
    $ magnetar standalone --data data
    $ magnetar standalone --data data --port 6650 --http-port 8080 --conf standalone.conf
    """
    from magnetar.base.errors import MagnetarError, Unprotected
    from magnetar.cli.exit_codes import Exit, code_for, facts_of, next_step, tell

    try:
        import uvloop

        from magnetar.admin.server import WebServer
        from magnetar.broker.standalone import run as serve
    except ModuleNotFoundError as error:
        tell(
            f"the broker cannot start: the package {error.name} is missing",
            why="a plain install brings the client only",
            run="pip install 'magnetar[broker]'",
        )
        return Exit.FAILURE
    options = {"brokerServicePort": port, "webServicePort": http_port, "bindAddress": bind_address}
    settings = {key: str(value) for key, value in options.items() if value is not None}
    say = _welcome if sys.stdout.isatty() else partial(print, flush=True)  # a script waits for this line on a pipe
    try:
        failure = uvloop.run(serve(str(data), settings, None if conf is None else str(conf), WebServer, say))
    except MagnetarError as error:
        message = f"the broker cannot start: {error.what}"
        run = next_step(error) if isinstance(error, Unprotected) else "magnetar standalone --help"
        tell(message, detail=facts_of(error), run=run, code=code_for(error))
        return Exit.FAILURE
    return broker_ended(failure, "magnetar standalone")


def broker_ended(failure: MagnetarError | None, command: str) -> Exit:
    """The exit code of a command that ran a broker until its end. `failure`: why the broker ended by itself. With
    the code of a lost session a supervisor starts the broker again."""
    from magnetar.base.errors import SessionLost
    from magnetar.broker.end_reason import end_reason
    from magnetar.cli.exit_codes import Exit, code_for, tell

    if failure is None:
        return Exit.OK
    tell(f"the broker stopped: {failure}", why=end_reason(failure), run=command, code=code_for(failure))
    return Exit.SESSION_LOST if isinstance(failure, SessionLost) else Exit.FAILURE


def _welcome(ready: str) -> None:
    import json

    from magnetar.cli.commands.welcome import welcome

    print(welcome(json.loads(ready)), flush=True)
