"""Folders and modules: a folder of the product has few modules, and no module has a metaphor as its name.

A module has the conventional term of the field as its name, one to three words in snake_case. The lists below are the
names that an engineer who knows messaging could not guess: metaphors, participles and gerunds without their noun.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from tests.tidy.repository import Source, findings, product, sources

MODULES_MAX = 20  # in one folder, beside its __init__.py
METAPHORS = """
attendance branches budget carrier cells child crew cuts deeds departures drive face facts fates feed forms frontier
gates gauge glance graveyard inbox intake judge kinds lake lane lanes lapser leaves leftover liars limb looks
mailbox nasty news notary outcomes outgoing outlet pace part places players prober reach recall roster rounds screen
seat shape shaper share sheaf sheaves shelf slots spelling spread steward story strand stretch stretches strikes
turn verdict visitors visits walk ways words
"""
PARTICIPLES = """
acking attached awaited begun capped carried completing consuming copying counted crossing cutshort decanting facing
following gathering given holding hosted kept locked measured migrated migrating misled misshapen moving narrowing
nearby opened opening operating packing pausing peeked plain pouring producing pushes queueing reading reads
received receiving recent refusals remembered renumbering served taking typed watching working
"""
REFUSED = frozenset([*METAPHORS.split(), *PARTICIPLES.split()])
NAMED = ("src/", "simulation/")


def crowded_folders(paths: list[str]) -> list[str]:
    """Folders with more modules than `MODULES_MAX`, each with its number."""
    modules = [PurePosixPath(path) for path in paths if not path.endswith("/__init__.py")]
    numbers = Counter(str(path.parent) for path in modules)
    return [f"{folder}: {number} modules" for folder, number in sorted(numbers.items()) if number > MODULES_MAX]


def metaphor(source: Source) -> Iterator[str]:
    for part in source.parts[1:]:
        name = part.removesuffix(".py")
        if name in REFUSED:
            yield source.found(1, f"{name}: a module has the conventional term of the field as its name")


def test_folders_of_product_have_few_modules() -> None:
    assert crowded_folders([source.path for source in product()]) == [], "split the folder by task"


def test_no_module_is_named_with_metaphor() -> None:
    assert findings(metaphor, (source for source in sources() if source.path.startswith(NAMED))) == []


def test_crowded_folder_is_found() -> None:
    paths = ["src/magnetar/x/__init__.py", *(f"src/magnetar/x/module{number}.py" for number in range(MODULES_MAX))]
    assert crowded_folders(paths) == []
    assert crowded_folders([*paths, "src/magnetar/x/last.py"]) == [f"src/magnetar/x: {MODULES_MAX + 1} modules"]


@pytest.mark.parametrize("path", ["src/magnetar/client/sheaf.py", "src/magnetar/lanes/batch.py", "simulation/given.py"])
def test_metaphor_is_found(path: str) -> None:
    assert findings(metaphor, [Source(path, "")])


@pytest.mark.parametrize("path", ["src/magnetar/client/prebuilt_batch.py", "src/magnetar/wire/read_plan.py"])
def test_conventional_name_is_let_through(path: str) -> None:
    assert findings(metaphor, [Source(path, "")]) == []
