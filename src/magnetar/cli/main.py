"""Where `magnetar` begins. `--version` is answered before anything is loaded; every command loads only what it needs.

Usage mistakes end with exit code 2 and say what is wrong, why, and what to run instead. It trusts each command to raise
errors of the tree and nothing else.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from magnetar import __version__

if TYPE_CHECKING:
    import cyclopts


def main(arguments: list[str] | None = None) -> int:
    tokens = sys.argv[1:] if arguments is None else arguments
    if tokens in (["--version"], ["version"]):
        sys.stdout.write(f"magnetar {__version__}\n")
        return 0
    return _command(tokens)


def _command(tokens: list[str]) -> int:
    import cyclopts

    from magnetar.base.errors import MagnetarError
    from magnetar.cli.exits import Exit, exit_for, tell

    app = _app()
    try:
        outcome = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        _tell_usage(error, app)
        return Exit.USAGE
    except MagnetarError as error:
        tell(error.what, why=", ".join(f"{key}={value}" for key, value in error.facts.items()))
        return exit_for(error)
    except KeyboardInterrupt:
        return Exit.FAILURE
    return outcome if isinstance(outcome, int) else Exit.OK


def _app() -> cyclopts.App:
    import cyclopts

    app = cyclopts.App(
        name="magnetar",
        help="A message broker that speaks Apache Pulsar's wire protocol.",
        version=__version__,
        help_format="plaintext",
    )
    app.command("magnetar.cli.standalone:standalone", help="Run a broker in this process.")
    return app


def _tell_usage(error: cyclopts.CycloptsError, app: cyclopts.App) -> None:
    from magnetar.cli.exits import tell

    chain = [name for name in error.command_chain or () if name in app]
    what = " ".join(str(error).split())
    tell(what, run=" ".join(["magnetar", *chain, "--help"]))


if __name__ == "__main__":
    sys.exit(main())
