"""A wait that can be used again and again, and that an interrupt ends without a word."""

from __future__ import annotations

import signal
import subprocess
import sys

SCRIPT = """
from magnetar.cli.sleep import InterruptibleSleep
with InterruptibleSleep() as pause:
    pause(0)
    pause(0)
    try:
        print("waits", flush=True)
        pause(3600)
    except KeyboardInterrupt:
        pass
"""


def test_ctrl_c_ends_wait_and_nothing_is_said_of_it() -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    out, told = process.communicate(timeout=60)
    assert (process.returncode, out, told) == (0, "", "")
