"""One door to time, chance, tasks, threads, sockets and files: `Runtime`. Whoever finds another cannot be simulated.

Names are followed through imports (`from time import sleep as nap` is still `time.sleep`); methods whose receiver is
not known are judged by their name. Exempt is what the decisions exempt: sqlite does its own I/O, the outermost rooms
open files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.repository import Source, findings, product

TIME = r"time\.(?!struct_time$)\w+|datetime\.(datetime|date)\.(now|utcnow|today)"
CHANCE = r"random\.\w+|secrets\b.*|uuid\.uuid[14]|os\.(urandom|getrandom)"
THREADS = (
    r"(threading|_thread|concurrent|multiprocessing|subprocess|queue)\b.*|"
    r"os\.(fork|forkpty|posix_spawn|kill|system|popen|exec\w+)"
)
TASKS = r"asyncio\.(create_task|ensure_future|to_thread|run_coroutine_threadsafe|Task)"
SOCKETS = (
    r"asyncio\.(Stream\w+|open_connection|start_server|open_unix_connection|start_unix_server)|"
    r"socket\.(socket|socketpair|create_\w+)|(ssl|select|selectors)\.(wrap_socket|select|poll|epoll)"
)
FILES = (
    r"\?open|(io|codecs)\.open|io\.FileIO|(pathlib|shutil|tempfile|glob|fcntl|mmap|fileinput)\b.*|"
    r"os\.(open|close|dup2?|read|write|pread|preadv|pwrite|pwritev|fsync|fdatasync|ftruncate|truncate|posix_fallocate|"
    r"rename|renames|replace|remove|unlink|rmdir|removedirs|mkdir|makedirs|listdir|scandir|walk|stat|lstat|fstat|statvfs|"
    r"link|symlink|readlink|chmod|chown|utime|access|sendfile|pipe)|"
    r"os\.path\.(exists|lexists|isfile|isdir|islink|getsize|get[acm]time|realpath|samefile)"
)
SQLITE = r"(sqlite3|dbm|shelve)\b.*"
LOOP = r"uvloop\b.*"

TASK_METHODS = {"create_task", "ensure_future", "run_in_executor", "run_coroutine_threadsafe"}
SOCKET_METHODS = {
    "sock_recv",
    "sock_recv_into",
    "sock_sendall",
    "sock_connect",
    "sock_accept",
    "sock_sendfile",
    "add_reader",
    "add_writer",
}
FILE_METHODS = {"read_text", "write_text", "read_bytes", "write_bytes"}

DOORS: dict[str, str] = {
    "time": TIME,
    "chance": CHANCE,
    "threads": THREADS,
    "tasks": TASKS,
    "sockets": SOCKETS,
    "files": FILES,
    "sqlite": SQLITE,
    "the choice of a loop": LOOP,
}
METHODS: dict[str, set[str]] = {"tasks": TASK_METHODS, "sockets": SOCKET_METHODS, "files": FILE_METHODS}
TYPES_ONLY = {"random.Random", "asyncio.Task", "pathlib.Path"}  # fine in an annotation, not as a call

EVERYTHING = set(DOORS)
EXEMPT: dict[str, set[str]] = {  # path prefix under src/magnetar -> doors it may use itself
    "runtime/": EVERYTHING - {"sqlite", "the choice of a loop"},
    "metadata/embedded.py": {"sqlite"},
    "metadata/table.py": {"sqlite"},  # its lower half: the file itself
    "policy/settings.py": {"files"},
    "cli/": {"files", "the choice of a loop"},
    "testing/": {"files", "threads", "the choice of a loop"},  # it hosts a broker in somebody else's process
    "spark/": {"files"},
}


def other_doors(source: Source) -> Iterator[str]:
    inside = source.path.removeprefix("src/magnetar/")
    exempt = {door for prefix, doors in EXEMPT.items() if inside.startswith(prefix) for door in doors}
    called = {id(node.func) for node in ast.walk(source.tree) if isinstance(node, ast.Call)}
    shut = [(door, re.compile(pattern)) for door, pattern in DOORS.items() if door not in exempt]
    annotated = _annotated(source)
    for node, name in source.names:
        for door, pattern in shut:
            if pattern.fullmatch(name) and not _type_only(name, node, called, annotated):
                yield source.found(node, f"{name.lstrip('?')}: {door} come from Runtime")
    for statement, _, target in source.imports:
        for door in ("sqlite", "the choice of a loop"):
            if door not in exempt and re.fullmatch(DOORS[door], target):
                yield source.found(statement, f"{target}: not here ({door})")
    for call in ast.walk(source.tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            for door, methods in METHODS.items():
                if door not in exempt and call.func.attr in methods:
                    yield source.found(call, f".{call.func.attr}(): {door} come from Runtime")


def _annotated(source: Source) -> set[int]:
    """The nodes inside annotations."""
    notes: list[ast.expr | None] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            notes.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            notes.append(node.returns)
    return {id(inner) for note in notes if note is not None for inner in ast.walk(note)}


def _type_only(name: str, node: ast.expr, called: set[int], annotated: set[int]) -> bool:
    return id(node) in annotated or (name in TYPES_ONLY and id(node) not in called)


def test_nobody_goes_round_runtime() -> None:
    assert findings(other_doors, product()) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.monotonic()",
        "from time import sleep as nap\nnap(1)",
        "from datetime import datetime\ndatetime.now()",
        "import datetime as d\nd.date.today()",
        "import random\nrandom.random()",
        "import random\nrandom.Random(1)",
        "import secrets\nsecrets.token_hex()",
        "from uuid import uuid4\nuuid4()",
        "import os\nos.urandom(4)",
        "import threading\nthreading.Thread()",
        "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor()",
        "open('x')",
        "import os\nos.rename('a', 'b')",
        "import os.path\nos.path.exists('a')",
        "from pathlib import Path\nPath('x').read_text()",
        "import pathlib\nx = pathlib.Path('x')",
        "def f(p):\n    p.write_bytes(b'')",
        "import socket\nsocket.socket()",
        "import asyncio\nasyncio.create_task(f())",
        "from asyncio import ensure_future\nensure_future(f())",
        "def f(loop):\n    loop.create_task(g())",
        "def f(loop):\n    loop.run_in_executor(None, g)",
        "import asyncio\nasyncio.to_thread(f)",
        "import asyncio\nasyncio.StreamReader()",
        "async def f(loop, s):\n    await loop.sock_recv(s, 1)",
        "import sqlite3",
        "def f():\n    import uvloop",
    ],
)
def test_another_door_is_caught(text: str) -> None:
    assert findings(other_doors, [Source("src/magnetar/topic/x.py", text)])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("topic/x.py", "import asyncio\nasync def f():\n    await asyncio.sleep(1)"),
        ("topic/x.py", "import random\ndef f(chance: random.Random) -> int:\n    return chance.randrange(3)"),
        ("topic/x.py", "import asyncio\nclass A:\n    x: asyncio.Task[None] | None = None"),
        ("topic/x.py", "import os.path\nos.path.join('a', 'b')"),
        ("topic/x.py", "def f(files):\n    files.open('x').datasync()"),
        ("runtime/x.py", "import time, threading, os\ntime.time()\nthreading.Thread()\nos.open('x', 0)"),
        ("metadata/embedded.py", "import sqlite3\nsqlite3.connect('x')"),
        ("cli/x.py", "import uvloop\nopen('x')"),
    ],
)
def test_right_door_is_let_through(path: str, text: str) -> None:
    assert findings(other_doors, [Source(f"src/magnetar/{path}", text)]) == []
