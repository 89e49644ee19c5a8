"""`magnetar completion`: the script for a shell, printed, or put where the shell finds it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from magnetar.base.errors import Misuse
from magnetar.cli.contextfile import folder, write
from magnetar.cli.options import flag
from magnetar.cli.shells import SCRIPTS, Shell


def completion(
    shell: Shell,
    /,
    *,
    install: Annotated[bool, flag("Write it to where the shell looks, and say what is left to do.")] = False,
) -> None:
    """Print a script that completes commands, options, contexts, and names that the broker knows.

    Parameters
    ----------
    shell
        Whose script.

    Examples
    --------
    $ magnetar completion bash
    $ magnetar completion zsh --install
    """
    if not install:
        sys.stdout.write(SCRIPTS[shell])
        return
    path, left = places(shell)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, SCRIPTS[shell], mode=0o644)
    except OSError as error:
        raise Misuse(f"the script cannot be written: {error.strerror}", file=path) from None
    sys.stderr.write(f"{path} ✓\n{left}\n")


def places(shell: Shell) -> tuple[str, str]:
    """Where its script belongs, and what a person still has to do."""
    data = folder(os.environ, "XDG_DATA_HOME", ".local/share")
    config = folder(os.environ, "XDG_CONFIG_HOME", ".config")
    match shell:
        case "bash":
            path = os.path.join(data, "bash-completion", "completions", "magnetar")
            return path, f"New shells use it where bash-completion is; else add to ~/.bashrc: source {path}"
        case "zsh":
            path = os.path.join(data, "zsh", "site-functions", "_magnetar")
            return path, f"Add to ~/.zshrc before compinit: fpath+=({os.path.dirname(path)})"
        case "fish":
            return os.path.join(config, "fish", "completions", "magnetar.fish"), "New shells use it."
        case "powershell":
            path = os.path.join(config, "powershell", "magnetar.ps1")
            return path, f"Add to $PROFILE: . {path}"
