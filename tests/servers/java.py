"""Java for the servers that tests start: which JVM runs them, and their jars from Maven packages.

A JVM is looked for in MAGNETAR_JAVA, in JAVA_HOME, in the system's JVM folder (the newest) and on PATH. Jars are named
by a POM beside this file and kept by Maven itself, in its own repository; no jar is copied. Whatever is missing skips
the test that asked, with a reason that says what to install; MAGNETAR_REQUIRE=all turns that into a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SYSTEM_JVMS = Path("/usr/lib/jvm")
MAJOR_MIN = 17
DOWNLOAD_S = 1800.0  # from an empty repository, on a slow line
TAIL_LINES = 30

# The JVM's own doors that Netty, RocksDB and BookKeeper go through.
OPENED = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)


@cache
def java(major_min: int = MAJOR_MIN) -> tuple[Path, int]:
    """A JVM that is new enough, and its major version; skips where there is none."""
    seen: list[str] = []
    for path in _candidates():
        major = _major(path)
        if major >= major_min:
            return path, major
        seen.append(f"{path} ({major or 'does not start'})")
    pytest.skip(f"no Java {major_min} or newer: install one or set JAVA_HOME; seen: {', '.join(seen) or 'none'}")


@cache
def class_path(pom: str) -> str:
    """Every jar the POM names, downloaded at the first time; skips where there is no Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"no mvn on PATH: install Maven, it fetches what tests/servers/{pom} names")
    java()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "class-path"
        command = [maven, "-B", "-ntp", "-f", str(HERE / pom)]
        command += ["dependency:build-classpath", f"-Dmdep.outputFile={output}"]
        said = ""
        for extra in (["-o"], []):  # what is there already needs no network
            done = subprocess.run(
                [*command, *extra], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DOWNLOAD_S, check=False
            )
            if done.returncode == 0:
                return output.read_text().strip()
            said = done.stdout.decode(errors="replace")
    raise AssertionError(f"mvn failed on {pom}:\n" + "\n".join(said.splitlines()[-TAIL_LINES:]))


def command(pom: str, *, heap_mb: int, properties: dict[str, str]) -> list[str]:
    """`java` with the POM's jars and the usual options; the main class comes next."""
    path, major = java()
    words = [str(path), f"-Xms{min(128, heap_mb)}m", f"-Xmx{heap_mb}m", f"-XX:MaxDirectMemorySize={heap_mb}m"]
    words += ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--enable-native-access=ALL-UNNAMED"]
    if major >= 23:
        words.append("--sun-misc-unsafe-memory-access=allow")
    for module in OPENED:
        words += ["--add-opens", f"{module}=ALL-UNNAMED"]
    words += [f"-D{key}={value}" for key, value in properties.items()]
    return [*words, "-cp", class_path(pom)]


def _candidates() -> Iterator[Path]:
    for home in (os.environ.get("MAGNETAR_JAVA"), os.environ.get("JAVA_HOME")):
        if home:
            yield Path(home) / "bin" / "java"
    installed = [path / "bin" / "java" for path in SYSTEM_JVMS.glob("*") if (path / "bin" / "java").exists()]
    yield from sorted(installed, key=_major, reverse=True)
    found = shutil.which("java")
    if found:
        yield Path(found)


@cache
def _major(path: Path) -> int:
    """0 where it does not run."""
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found.group(1)) if found else 0
