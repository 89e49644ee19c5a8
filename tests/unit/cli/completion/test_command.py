"""`magnetar completion`: scripts as they are, printed or put in place."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from magnetar.cli.completion.shells import SCRIPTS, Shell
from magnetar.cli.exit_codes import Exit
from magnetar.cli.main import main


@pytest.mark.parametrize("shell", SCRIPTS)
def test_script_is_printed_and_hides_whatever_goes_wrong(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == Exit.OK
    shown = capsys.readouterr()
    assert shown.out == SCRIPTS[shell]
    assert f"__complete {shell}" in shown.out
    assert "2>/dev/null" in shown.out or "2>$null" in shown.out


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", "data/bash-completion/completions/magnetar"),
        ("zsh", "data/zsh/site-functions/_magnetar"),
        ("fish", "config/fish/completions/magnetar.fish"),
        ("powershell", "config/powershell/magnetar.ps1"),
    ],
)
def test_script_is_put_where_its_shell_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: Shell, place: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for _ in range(2):
        assert main(["completion", shell, "--install"]) == Exit.OK
    shown = capsys.readouterr()
    assert shown.out == ""
    assert str(tmp_path / place) in shown.err
    assert (tmp_path / place).read_text() == SCRIPTS[shell]
    assert stat.S_IMODE((tmp_path / place).stat().st_mode) == 0o644


def test_place_that_cannot_be_written_to_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fish").write_text("a file")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["completion", "fish", "--install"]) == Exit.USAGE
    assert str(tmp_path / "fish") in capsys.readouterr().err


def test_shell_that_is_not_known_is_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == Exit.USAGE
    assert "tcsh" in capsys.readouterr().err
