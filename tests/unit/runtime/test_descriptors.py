"""The limit of open files is raised as far as it goes, and never lowered."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource
from magnetar.runtime.descriptors import as_many_as_allowed
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, 256))
print(as_many_as_allowed(), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize("soft", [64, 256])
def test_small_limit_is_raised_as_far_as_system_allows(soft: int) -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT.format(soft=soft)], capture_output=True, text=True, check=True)
    assert ran.stdout == "256 (256, 256)\n"
