"""The wheel and the source archive are reproducible: the same files give the same bytes, so that users can check them.

Built by the installed backend, without a network. The two trees differ in everything that is not content: place, times,
order of creation, time zone and the seed of hashes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

from tests.tidy.repository import ROOT, files

FIRST_S, SECOND_S = 1_500_000_000, 1_700_000_000  # times of the files
NOT_IN_WHEELS = ("tests/", "simulation/", "tools/", "benchmarks/", "examples/", "docs/", "deploy/")
BUILD = "import sys; from hatchling.build import build_{kind} as build; sys.stdout.write(build(sys.argv[1]))"


def copied(folder: Path, names: Iterable[str], modified_s: int) -> Path:
    for name in names:
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / name).read_bytes())
        os.utime(copy, (modified_s, modified_s))
    return folder


def built(kind: str, tree: Path, **environment: str) -> Path:
    where = tree.with_name(f"{tree.name}-{kind}")
    known = {key: value for key, value in os.environ.items() if key not in ("SOURCE_DATE_EPOCH", "PYTHONPATH")}
    command = [sys.executable, "-c", BUILD.format(kind=kind), str(where)]
    ran = subprocess.run(command, cwd=tree, env=known | environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return where / ran.stdout.splitlines()[-1]


def two(kind: str, tmp_path: Path, settings: str = "") -> tuple[Path, Path]:
    names = [name for name in files() if kind == "sdist" or not name.startswith(NOT_IN_WHEELS)]
    one = copied(tmp_path / "one", names, FIRST_S)
    other = copied(tmp_path / "elsewhere" / "other", reversed(names), SECOND_S)
    for tree in (one, other):
        with (tree / "pyproject.toml").open("a", encoding="utf-8") as project:
            project.write(settings)
    return built(kind, one, TZ="UTC", PYTHONHASHSEED="1"), built(kind, other, TZ="Asia/Tokyo", PYTHONHASHSEED="2")


def test_wheel_built_twice_has_same_bytes(tmp_path: Path) -> None:
    one, other = two("wheel", tmp_path)
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()
    with ZipFile(one) as wheel:
        names = [name.split(".dist-info/")[-1] for name in wheel.namelist()]
    assert {"sboms/broker.cdx.json", "licenses/LICENSE", "licenses/NOTICE", "magnetar/cli/main.py"} <= set(names)


def test_source_archive_built_twice_has_same_bytes(tmp_path: Path) -> None:
    one, other = two("sdist", tmp_path)
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(files()) <= names


def test_wheel_with_times_of_files_is_found_different(tmp_path: Path) -> None:
    one, other = two("wheel", tmp_path, "\n[tool.hatch.build]\nreproducible = false\n")
    assert one.read_bytes() != other.read_bytes()
