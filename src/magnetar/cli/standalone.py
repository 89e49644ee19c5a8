"""`magnetar standalone`: a whole broker in this process, its data in one folder.

Checks what can be checked before anything heavy is loaded, chooses the event loop (nobody else does), and runs until
SIGTERM or SIGINT. It knows nothing about what a broker is made of.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))]


def standalone(
    *,
    data: Annotated[Path, Parameter(validator=validators.Path(file_okay=False))] = Path("data"),
    port: Port = 6650,
    http_port: Port = 8080,
    conf: Annotated[Path | None, Parameter(validator=validators.Path(exists=True, dir_okay=False))] = None,
) -> int:
    """Run a broker in this process. It stops, with everything on disk, on SIGTERM or Ctrl-C.

    Parameters
    ----------
    data
        Folder for journal, ledgers and metadata; made if it is missing, held by one broker at a time.
    port
        Where clients connect, as pulsar://localhost:PORT. 0 takes a free one.
    http_port
        Where the REST interface and the metrics are. 0 takes a free one.
    conf
        A standalone.conf or broker.conf in Pulsar's own form.
    """
    from magnetar.cli.exits import Exit, tell

    try:
        import uvloop

        from magnetar.broker.standalone import run
    except ModuleNotFoundError as error:
        tell(
            f"the broker cannot start: the package {error.name} is missing",
            why="a plain install brings the client only",
            run="pip install 'magnetar[broker]'",
        )
        return Exit.FAILURE
    uvloop.run(run(str(data), port, http_port, None if conf is None else str(conf)))
    return Exit.OK
