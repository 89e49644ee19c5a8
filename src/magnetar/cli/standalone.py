"""`magnetar standalone`: a whole broker in this process, its data in one folder.

Checks what can be checked before anything heavy is loaded, chooses the event loop (nobody else does), and runs until
SIGTERM or SIGINT. It puts the node and its REST skin together and knows nothing about what they are made of.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))]


def standalone(
    *,
    data: Annotated[Path, Parameter(validator=validators.Path(file_okay=False))] = Path("data"),
    port: Port | None = None,
    http_port: Port | None = None,
    conf: Annotated[Path | None, Parameter(validator=validators.Path(exists=True, dir_okay=False))] = None,
) -> int:
    """Run a broker in this process. It stops, with everything on disk, on SIGTERM or Ctrl-C.

    Parameters
    ----------
    data
        Folder for journal, ledgers and metadata; made if it is missing, held by one broker at a time.
    port
        Where clients connect, as pulsar://localhost:PORT; 0 takes a free one. Default: what CONF says, else 6650.
    http_port
        Where the REST interface and the metrics are; 0 takes a free one. Default: what CONF says, else 8080.
    conf
        A standalone.conf or broker.conf in Pulsar's own form.

    Examples
    --------
    $ magnetar standalone --data data
    $ magnetar standalone --data data --port 6650 --http-port 8080 --conf standalone.conf
    """
    from magnetar.base.errors import MagnetarError
    from magnetar.cli.exits import Exit, code_for, facts_of, tell

    try:
        import uvloop

        from magnetar.admin.server import WebServer
        from magnetar.broker.standalone import run
    except ModuleNotFoundError as error:
        tell(
            f"the broker cannot start: the package {error.name} is missing",
            why="a plain install brings the client only",
            run="pip install 'magnetar[broker]'",
        )
        return Exit.FAILURE
    given = {"brokerServicePort": port, "webServicePort": http_port}
    settings = {key: str(value) for key, value in given.items() if value is not None}
    say = partial(print, flush=True)  # a script that started us waits for this line on a pipe
    try:
        failure = uvloop.run(run(str(data), settings, None if conf is None else str(conf), WebServer, say))
    except MagnetarError as error:
        said = f"the broker cannot start: {error.what}"
        tell(said, why=facts_of(error), run="magnetar standalone --help", code=code_for(error))
        return Exit.FAILURE
    if failure is not None:
        tell(f"the broker stopped: {failure}", why="the disk did not take what it was given", run="magnetar standalone")
        return Exit.FAILURE
    return Exit.OK
