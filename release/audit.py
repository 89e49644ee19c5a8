"""The verdict on an answer of pip-audit: which locked packages have known vulnerabilities.

A package that could not be looked up counts as a failure, not as sound: an index without advisories knows none. It
reads the JSON of pip-audit on standard input and decides nothing else; `make audit` runs it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

PACKAGES_SHOWN_MAX = 5  # of those that could not be looked up: mostly it is all of them


def verdict(text: str) -> tuple[int, str]:
    """The exit code and what to say: 0 no known vulnerability, 1 some, 2 the question was not answered."""
    try:
        packages: list[dict[str, Any]] = json.loads(text)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return 2, "audit: pip-audit did not answer; its own message is above. Nothing was audited.\n"
    unknown = [f"{one['name']}: {one['skip_reason']}" for one in packages if "skip_reason" in one]
    found = [
        f"{one['name']} {one['version']}: {fault['id']}, {_cured(fault['fix_versions'])}"
        for one in packages
        for fault in one.get("vulns", ())
    ]
    looked_up = len(packages) - len(unknown)
    said = [f"audit: {len(found)} known vulnerabilities in {looked_up} packages", *found] if looked_up else []
    if unknown:
        said += [
            f"audit: {len(unknown)} packages could not be looked up: this index may offer no advisories (the JSON of "
            "PyPI). Run make audit where pypi.org itself can be reached.",
            *unknown[:PACKAGES_SHOWN_MAX],
        ]
    return (1 if found else 2 if unknown or not packages else 0), "\n".join(said) + "\n"


def _cured(versions: list[str]) -> str:
    return f"fixed in {', '.join(versions)}: run make lock UPGRADE=--upgrade" if versions else "not fixed yet"


if __name__ == "__main__":
    code, message = verdict(sys.stdin.read())
    (sys.stderr if code else sys.stdout).write(message)
    sys.exit(code)
