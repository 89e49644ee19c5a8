"""The lock files agree with pyproject.toml: `make lock` was run after its last change. `make` installs nothing else.

Each file of requirements/ locks some extras and groups. It must hold every package they ask for, in a version within
the range, with hashes and without addresses. Files that are installed into one environment name the same versions.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.lock import Locked, locked
from tests.tidy.repository import PACKAGE, ROOT

DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Lock file -> the extras and groups that it locks. All but those of groups alone lock the plain install too.
EXTRAS = {
    "broker": ["broker"],
    "dev": ["broker", "avro", "dev"],
    "spark": ["spark", "pipelines"],
    "java": ["java"],
    "spark42": ["broker", "spark", "pipelines"],
}
GROUPS = {"build": ["build"], "release": ["release"], "docs": ["docs"], "spark42": ["spark42"]}
FILES = sorted(EXTRAS | GROUPS)
TOGETHER = ("build", "broker", "dev", "spark", "java")  # in .venv


def missing(requirements: Iterable[Requirement], packages: list[Locked]) -> Iterator[str]:
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        versions = [one.version for one in packages if one.name == name]
        if not versions:
            yield f"{requirement} is not locked"
        for version in versions:
            if not requirement.specifier.contains(version, prereleases=True):
                yield f"{name} {version} is not within {requirement.specifier}"


def asked(file: str) -> list[Requirement]:
    """What pyproject.toml asks for of the extras and groups that a lock file locks; extras of its own are followed."""
    project = DOCUMENT["project"]
    found = [line for group in GROUPS.get(file, ()) for line in DOCUMENT["dependency-groups"][group]]
    if file in EXTRAS:
        found += project["dependencies"]
    extras = list(EXTRAS.get(file, ()))
    for extra in extras:  # grows meanwhile
        for line in project["optional-dependencies"][extra]:
            requirement = Requirement(line)
            if requirement.name == PACKAGE:
                extras += sorted(requirement.extras - set(extras))
            else:
                found.append(line)
    return [Requirement(line) for line in found]


def read(file: str) -> str:
    return (ROOT / "requirements" / f"{file}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES)
def test_lock_has_every_dependency_within_its_range(file: str) -> None:
    assert list(missing(asked(file), list(locked(read(file))))) == [], "run make lock"


@pytest.mark.parametrize("file", FILES)
def test_lock_has_hashes_and_no_addresses(file: str) -> None:
    text = read(file)
    assert "://" not in text
    assert [one for one in locked(text) if not one.hashes] == []


def test_locks_of_one_environment_have_equal_versions() -> None:
    versions: dict[tuple[str, str], set[str]] = {}
    for file in TOGETHER:
        for one in locked(read(file)):
            versions.setdefault((one.name, one.version), set()).add(file)
    split = {"numpy", "atheris"}  # one version for each range of Pythons
    names = [name for name, _ in versions if name not in split]
    assert len(names) == len(set(names)), "run make lock"


def test_every_extra_and_group_is_locked() -> None:
    extras = {extra for names in EXTRAS.values() for extra in names} | {"cli", "all"}  # parts and sums of others
    assert set(DOCUMENT["project"]["optional-dependencies"]) == extras
    assert set(DOCUMENT["dependency-groups"]) == {group for names in GROUPS.values() for group in names}
    assert {path.stem for path in (ROOT / "requirements").glob("*.txt")} == set(FILES)


def test_build_backend_is_one_that_is_locked() -> None:
    assert set(DOCUMENT["build-system"]["requires"]) <= set(DOCUMENT["dependency-groups"]["build"])


def test_make_installs_locked_packages_only() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = re.findall(r"\$\(PIP(?:_INSTALL)?\)(.*)", text.split("PIP = $(PY) $(PIP_INSTALL)", 1)[1])
    assert len(installs) >= 9
    assert [line for line in installs if not line.startswith((" $(LOCKED) requirements/", " $(PROJECT)"))] == []
    assert re.search(r"^LOCKED := .*--require-hashes -r$", text, re.MULTILINE)
    assert re.search(r"^PROJECT := .*--no-deps --no-index -e \.$", text, re.MULTILINE)
    others = text.replace("PIP_INSTALL = -m pip install", "").replace("bin/uv pip install", "")  # uv: not locked
    assert "pip install" not in others


HASH = "    --hash=sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("rich>=15,<16", ""),
        ("rich>=15,<16", f"rich==16.0.0 \\\n{HASH}\n"),
        ("numpy>=2.1", f"numpy==2.4 ; python_full_version >= '3.12' \\\n{HASH}\nnumpy==2.0 \\\n{HASH}\n"),
    ],
)
def test_missing_or_foreign_version_is_found(line: str, text: str) -> None:
    assert list(missing([Requirement(line)], list(locked(text))))


@pytest.mark.parametrize("text", ["rich>=15\n", "rich==15.0.0\n", f"rich @ https://example.org/x.whl \\\n{HASH}\n"])
def test_line_without_version_or_hash_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a package"):
        list(locked(text))
