"""The bill of materials of a wheel, as CycloneDX 1.6 in JSON: what an install of the extra `broker` brings.

Packages and versions come from the lock file; licences and who needs whom come from the metadata of the installed
packages, which `make` installed from the same lock file. Hashes stay in the lock file: a version has one file for each
platform. There is no time and no random number here, so the same inputs give the same bytes. The wheel itself contains
no code of others.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from magnetar import __version__
from release.lock import Locked, locked

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "broker.txt"
PROJECT = "magnetar"
EXTRAS = ("", "cli", "broker")
LICENCE_CHARACTERS_MAX = 60  # longer ones are texts, not names


def written() -> str:
    """The document as it is stored."""
    packages = list(locked(LOCK.read_text(encoding="utf-8")))
    return json.dumps(document(packages, __version__), indent=2) + "\n"


def document(packages: list[Locked], version: str) -> dict[str, Any]:
    refs = {one.name: _ref(one) for one in packages}
    project = {
        "type": "application",
        "bom-ref": PROJECT,
        "name": PROJECT,
        "version": version,
        "licenses": [{"expression": "Apache-2.0"}],
    }
    needs = [(PROJECT, _needed(PROJECT)), *((one.name, _needed(one.name)) for one in packages)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": project},
        "components": [_component(one) for one in packages],
        "dependencies": [
            {"ref": refs.get(name, PROJECT), "dependsOn": [ref for other, ref in refs.items() if other in needed]}
            for name, needed in needs
        ],
    }


def _component(package: Locked) -> dict[str, Any]:
    ref = _ref(package)
    found: dict[str, Any] = {"type": "library", "bom-ref": ref, "name": package.name, "version": package.version}
    licence = _licence(_installed(package.name))
    return found | ({"licenses": [licence]} if licence else {}) | {"purl": ref}


def _ref(package: Locked) -> str:
    return f"pkg:pypi/{package.name}@{package.version}"


def _installed(name: str) -> Distribution | None:
    """None where a package is for other platforms."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _licence(package: Distribution | None) -> dict[str, Any] | None:
    if package is None:
        return None
    for expression in package.metadata.get_all("License-Expression") or []:
        return {"expression": expression}
    name = " ".join(package.metadata.get_all("License") or [])
    if not 0 < len(name) <= LICENCE_CHARACTERS_MAX:
        classifiers = package.metadata.get_all("Classifier") or []
        name = " or ".join(text.split(" :: ")[-1] for text in classifiers if text.startswith("License :: "))
    return {"license": {"name": name}} if name else None


def _needed(name: str) -> set[str]:
    """The packages that one needs on this platform; for the project itself with its extras."""
    package = _installed(name)
    extras = EXTRAS if name == PROJECT else ("",)
    found = set[str]()
    for line in (package.requires or []) if package is not None else []:
        requirement = Requirement(line)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            found.add(canonicalize_name(requirement.name))
    return found - {name}


if __name__ == "__main__":
    sys.stdout.write(written())
