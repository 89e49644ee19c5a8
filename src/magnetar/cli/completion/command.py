"""`magnetar completion`: prints the completion script of a shell, or installs it in the folder of the shell."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from magnetar.base.errors import Misuse
from magnetar.cli.completion.shells import SCRIPTS, Shell
from magnetar.cli.options import flag
from magnetar.cli.settings.context_file import folder, write


def completion(
    shell: Shell,
    /,
    *,
    install: Annotated[
        bool, flag("Write the script to the folder where the shell looks for it, and print the remaining steps.")
    ] = False,
) -> None:
    """Print a script that completes commands, options, contexts, and names that the broker knows.

    Parameters
    ----------
    shell
        Shell that runs the script.

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
    """The path of the script, and the steps that remain for the user."""
    data = folder(os.environ, "XDG_DATA_HOME", ".local/share")
    config = folder(os.environ, "XDG_CONFIG_HOME", ".config")
    match shell:
        case "bash":
            path = os.path.join(data, "bash-completion", "completions", "magnetar")
            return path, f"New shells use it if bash-completion is installed. Otherwise add to ~/.bashrc: source {path}"
        case "zsh":
            path = os.path.join(data, "zsh", "site-functions", "_magnetar")
            return path, f"Add to ~/.zshrc before compinit: fpath+=({os.path.dirname(path)})"
        case "fish":
            return os.path.join(config, "fish", "completions", "magnetar.fish"), "New shells use it."
        case "powershell":
            path = os.path.join(config, "powershell", "magnetar.ps1")
            return path, f"Add to $PROFILE: . {path}"
