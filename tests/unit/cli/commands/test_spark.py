"""The verbs of Spark before anything of Spark runs: what cannot work is said at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from magnetar.cli.exit_codes import Exit
from magnetar.cli.main import main


def test_program_without_interpreter_for_workers_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2026-01-01' >&2\n")
    java.chmod(0o755)
    program = tmp_path / "app.py"
    program.write_text("raise SystemExit(77)\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "nowhere"))
    assert main(["spark", "run", str(program)]) == Exit.USAGE
    said = capsys.readouterr().err
    assert "nowhere does not exist (PYSPARK_PYTHON)" in said
    assert "export PYSPARK_PYTHON=" in said
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert main(["spark", "run", str(program)]) == 77


def test_url_of_command_is_passed_on_to_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["spark", "run", "app.py", "--url", "pulsar://elsewhere:1", "--dry-run", "-o", "json"]
    assert main(words) == Exit.OK
    assert '"MAGNETAR_URL": "pulsar://elsewhere:1"' in capsys.readouterr().out


def test_doctor_tells_broker_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "doctor", "--url", "pulsar://127.0.0.1:1", "--check", "-o", "json"]) == Exit.FAILURE
    broker = next(one for one in json.loads(capsys.readouterr().out) if one["check"] == "broker")
    assert (broker["ok"], broker["do"]) == (False, "run magnetar standalone, or set --url")
    assert "pulsar://127.0.0.1:1" in broker["found"]


def test_project_is_not_written_over_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop").write_text("mine")
    assert main(["spark", "init", str(tmp_path / "shop")]) == Exit.USAGE
    assert "a file has this name" in capsys.readouterr().err
    assert (tmp_path / "shop").read_text() == "mine"
