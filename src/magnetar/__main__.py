"""`python -m magnetar` is the command `magnetar`, for environments that do not have its script on the path."""

from __future__ import annotations

import sys

from magnetar.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
