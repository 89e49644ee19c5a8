"""Other people's test suites: files written into a folder and run by a pytest of their own, as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree

TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    output: str
    took_s: float
    passed: list[str]
    failed: dict[str, str]  # by name of the test: what pytest said
    said: dict[str, str]  # record_property(name, value) of all tests
    left: list[str]  # in the directory for temporary files


def run_suite(folder: Path, files: dict[str, str], *options: str, environment: dict[str, str] | None = None) -> Outcome:
    """Write the files, run pytest on the folder in a process of its own, and tell what came out."""
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(dedent(text))
    (folder / "pytest.ini").touch()  # the root is here, whatever lies above
    report = folder / "report.xml"
    command = [sys.executable, "-W", "error::ResourceWarning", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-o", "junit_family=xunit2", f"--junit-xml={report}", f"--basetemp={folder / 'base'}", *options]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "MAGNETAR_"))}
    clean |= {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
    began = time.monotonic()
    ran = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    took_s = time.monotonic() - began
    passed, failed, said = [], {}, {}
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        name = case.get("name", "")
        wrong = [part for part in case if part.tag in ("failure", "error", "skipped")]
        if wrong:
            failed[name] = "\n".join(f"{part.get('message')}\n{part.text}" for part in wrong)
        else:
            passed.append(name)
        said |= {found.get("name", ""): found.get("value", "") for found in case.iter("property")}
    left = sorted(path.name for path in temporary.iterdir())
    return Outcome(ran.returncode, ran.stdout + ran.stderr, took_s, passed, failed, said, left)
