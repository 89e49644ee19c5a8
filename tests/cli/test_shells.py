"""Completion in real shells on real terminals, asking a real broker: what TAB makes of a line is what the command gets.

bash, zsh and fish are typed into, the latter two in `make test-all`; where one is missing its tests say so. PowerShell
is not: what its script asks for is tried in tests/unit/cli/completion/test_entry.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.typing import Typed
from tests.servers.standalone import Standalone

SHELLS = ["bash", pytest.param("zsh", marks=pytest.mark.slow), pytest.param("fish", marks=pytest.mark.slow)]


@pytest.fixture(params=SHELLS)
def typed(request: pytest.FixtureRequest, tmp_path: Path, environment: dict[str, str]) -> Iterator[Typed]:
    with Typed(request.param, tmp_path / "shell", environment) as shell:
        yield shell


def test_commands_options_and_choices(typed: Typed) -> None:
    assert typed.completed("magnetar standal", "standalone ") == ["standalone"]
    assert typed.completed("magnetar topics verif", "verify-order ") == ["topics", "verify-order"]
    assert typed.completed("magnetar topic list --domai", "--domain ") == ["topic", "list", "--domain"]
    assert typed.completed("magnetar topic list -o yam", "yaml ") == ["topic", "list", "-o", "yaml"]
    assert typed.completed("magnetar -q topic list --output=ya", "yaml ") == ["-q", "topic", "list", "--output=yaml"]
    shown = typed.listed("magnetar topic ", "create", "verify-order", "lookup")
    assert "Traceback" not in shown


def test_contexts(typed: Typed, magnetar: Run) -> None:
    for name in ("production", "staging"):
        assert magnetar("context", "add", name, "--admin-url", "http://localhost:1").code == 0
    assert typed.completed("magnetar context use prod", "production ") == ["context", "use", "production"]
    assert typed.completed("magnetar --context=sta", "staging ") == ["--context=staging"]
    typed.listed("magnetar context show ", "production", "staging")


def test_names_that_broker_knows(typed: Typed, broker: Standalone, magnetar: Run, name: str) -> None:
    broker.admin("PUT", f"persistent/public/default/plain-{name}")
    broker.ask("PUT", f"/admin/v2/scalable/public/default/wide-{name}", {}, numInitialSegments="2")
    assert magnetar("subscription", "create", f"plain-{name}", f"billing-{name}").code == 0
    scalable = f"topic://public/default/wide-{name}"
    # as people type them, step by step, and behind others
    assert typed.completed(f"magnetar topic show plain-{name[:-1]}", f"plain-{name} ")[2] == f"plain-{name}"
    assert typed.completed("magnetar topic list public/defa", "default ")[2] == "public/default"
    assert typed.completed("magnetar topic show topic://publ", "public/")[2] == "topic://public/"
    assert typed.completed(f"magnetar topic show {scalable[:-1]}", f"wide-{name} ")[2] == scalable
    assert typed.completed("magnetar tenant show publi", "public ")[2] == "public"
    words = typed.completed(f"magnetar message peek plain-{name} -s bill", f"billing-{name} ")
    assert words[2:] == [f"plain-{name}", "-s", f"billing-{name}"]
    typed.listed(f"magnetar topic split {scalable} ", "0", "1")


def test_broker_that_is_not_there_is_silence(typed: Typed) -> None:
    words = typed.completed("magnetar --admin-url http://localhost:1 tenant show pub", "show pub")
    assert words == ["--admin-url", "http://localhost:1", "tenant", "show", "pub"]


def test_files_are_completed_by_shell_itself(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "shell" / "my-broker.conf").touch()
    words = typed.completed("magnetar standalone --conf my-bro", "my-broker.conf")
    assert words == ["standalone", "--conf", "my-broker.conf"]


def test_name_that_would_do_harm_is_typed_as_word(typed: Typed, broker: Standalone, tmp_path: Path) -> None:
    name = "harm-$(touch harmed);x y"
    broker.ask("PUT", "/admin/v2/persistent/public/default/harm-%24%28touch%20harmed%29%3Bx%20y")
    assert typed.completed("magnetar topic show harm-", "touch") == ["topic", "show", name]
    assert not (tmp_path / "shell" / "harmed").exists()
    broker.ask("DELETE", "/admin/v2/persistent/public/default/harm-%24%28touch%20harmed%29%3Bx%20y")
