"""The file of contexts on a real disk: its owner's alone, never half, and no change lost between two processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.base.errors import Misuse
from magnetar.cli.settings.context_document import added, read
from magnetar.cli.settings.context_file import change, is_open_to_others, load, place


def _added(path: Path, name: str) -> None:
    change(str(path), lambda text: added(text, str(path), name, {"url": "pulsar://x", "token": "secret"}))


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/magnetar/contexts.toml"),
        ({"HOME": "/h"}, "/h/.config/magnetar/contexts.toml"),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/magnetar/contexts.toml"),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/magnetar/contexts.toml"),
    ],
)
def test_where_file_is(environment: dict[str, str], path: str) -> None:
    assert place(environment) == path


def test_no_file_is_no_context(tmp_path: Path) -> None:
    assert load(str(tmp_path / "none" / "contexts.toml")).all == {}


def test_new_file_is_its_owners_alone_whatever_umask(tmp_path: Path) -> None:
    path = tmp_path / "magnetar" / "contexts.toml"
    before = os.umask(0)
    try:
        _added(path, "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not is_open_to_others(str(path))


def test_file_readable_by_others_is_restricted_at_next_change(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    path.write_text("version = 1\n")
    path.chmod(0o644)
    assert is_open_to_others(str(path))
    _added(path, "a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_refused_change_leaves_file_and_folder_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    _added(path, "a")
    before = path.read_bytes()
    with pytest.raises(Misuse):
        change(str(path), lambda text: added(text, "f", "not a name", {"url": "x"}))
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["contexts.toml", "contexts.toml.lock"]


def test_link_to_file_elsewhere_stays_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "contexts.toml"
    real.parent.mkdir()
    real.write_text("")
    path = tmp_path / "contexts.toml"
    path.symlink_to(real)
    _added(path, "a")
    assert path.is_symlink()
    assert list(read(real.read_text(), "f").all) == ["a"]


def test_file_that_is_no_text_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    path.write_bytes(b"version = 1\n\xff\n")
    with pytest.raises(Misuse, match="UTF-8") as caught:
        load(str(path))
    assert caught.value.facts["file"] == f"{path}:2"


def test_folder_in_its_place_is_told(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    path.mkdir()
    with pytest.raises(Misuse, match="cannot be read"):
        load(str(path))
    with pytest.raises(Misuse, match="cannot be"):
        _added(path, "a")


CHANGES = """
import sys
from magnetar.cli.settings.context_file import change
from magnetar.cli.settings.context_document import added
path, who = sys.argv[1:]
for number in range(10):
    change(path, lambda text: added(text, path, f"{who}-{number}", {"url": "pulsar://x"}))
"""


def test_processes_that_change_it_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    processes = [subprocess.Popen([sys.executable, "-c", CHANGES, str(path), who]) for who in ("a", "b")]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(load(str(path)).all) == 20
