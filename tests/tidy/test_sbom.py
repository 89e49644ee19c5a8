"""The bill of materials in the wheel says what the lock file says: `make sbom` was run after the last `make lock`."""

from __future__ import annotations

import json

from magnetar import __version__
from release.lock import locked
from release.sbom import written
from tests.tidy.repository import ROOT

STORED = (ROOT / "requirements" / "broker.cdx.json").read_text(encoding="utf-8")
LOCKED = list(locked((ROOT / "requirements" / "broker.txt").read_text(encoding="utf-8")))


def test_bill_of_materials_is_made_from_lock() -> None:
    bill = json.loads(STORED)
    assert [(one["name"], one["version"]) for one in bill["components"]] == [(one.name, one.version) for one in LOCKED]
    assert bill["metadata"]["component"]["version"] == __version__
    assert written() == STORED, "run make sbom"


def test_bill_of_materials_has_licence_for_each_package() -> None:
    elsewhere = {one.name for one in LOCKED if "emscripten" in one.marker}  # installed in browsers only
    unknown = {one["name"] for one in json.loads(STORED)["components"] if "licenses" not in one}
    assert unknown <= elsewhere


def test_bill_of_materials_reaches_each_package_from_project() -> None:
    needs = {one["ref"]: one["dependsOn"] for one in json.loads(STORED)["dependencies"]}
    reached, waiting = set[str](), ["magnetar"]
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += needs[ref]
    assert {ref.split("@")[0] for ref in needs if ref not in reached} <= {"pkg:pypi/httpx2-jsfetch"}
