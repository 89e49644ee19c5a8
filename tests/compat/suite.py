"""Run the stock Python client's own public suite, case by case, against a fresh `magnetar standalone`.

    python -m tests.compat.suite --suite DIR [--group core] [--case pulsar:seek] [--timeout 120]

DIR is a checkout of the client's repository, outside this one; its cases expect a broker on ports 6650 and 8080 and
need `requests` beside what the `dev` extra brings. Each case runs in a process of its own with a deadline; the table
of cases, results and seconds goes to standard output as Markdown, the last lines of what failed to standard error.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.compat.cases import GROUPS
from tests.servers.standalone import Standalone

PORT, HTTP_PORT = 6650, 8080
TAIL_LINES = 25
FILES = ["custom_logger", "debug_logger", "interrupted", "pulsar", "schema", "table_view", "reader", "asyncio"]
GOOD = ("passed", "skipped")

# What the client's own test service is configured with, as far as these groups need it.
SETTINGS = {
    "maxMessageSize": 1024000,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "allowAutoTopicCreation": True,
    "allowAutoTopicCreationType": "non-partitioned",
    "subscriptionKeySharedUseConsistentHashing": False,
    "brokerDeleteInactiveTopicsEnabled": True,
    "brokerDeleteInactiveTopicsFrequencySeconds": 60,
    "defaultRetentionTimeInMinutes": 0,
    "defaultRetentionSizeInMB": 0,
}
SET_UP: list[tuple[str, object]] = [
    (
        "clusters/standalone",
        {
            "serviceUrl": f"http://localhost:{HTTP_PORT}/",
            "serviceUrlTls": "https://localhost:8443/",
            "brokerServiceUrl": f"pulsar://localhost:{PORT}/",
            "brokerServiceUrlTls": "pulsar+ssl://localhost:6651/",
        },
    ),
    ("tenants/public", {"adminRoles": ["anonymous"], "allowedClusters": ["standalone"]}),
    (
        "namespaces/public/default",
        {
            "auth_policies": {"namespace_auth": {"anonymous": ["produce", "consume"]}},
            "replication_clusters": ["standalone"],
        },
    ),
    (
        "namespaces/public/default-2",
        {
            "auth_policies": {"namespace_auth": {"anonymous": ["produce", "consume"]}},
            "replication_clusters": ["standalone"],
        },
    ),
    ("tenants/private", {"adminRoles": [], "allowedClusters": ["standalone"]}),
    (
        "namespaces/private/auth",
        {
            "auth_policies": {"namespace_auth": {"token-principal": ["produce", "consume"]}},
            "replication_clusters": ["standalone"],
        },
    ),
]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--suite", type=Path, required=True, help="a checkout of the stock Python client")
    parser.add_argument("--group", action="append", choices=sorted(GROUPS), help="only these groups")
    parser.add_argument("--case", action="append", help="only these cases, as file:name")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one case")
    chosen = parser.parse_args(arguments)
    cases = [
        (group, case)
        for group in chosen.group or GROUPS
        for case in GROUPS[group]
        if not chosen.case or case in chosen.case
    ]
    # As the suite's own script and unittest order them: some cases use a topic that another one makes.
    cases.sort(key=lambda item: (FILES.index(item[1].split(":")[0]), item[1]))
    classes = _classes(chosen.suite / "tests")
    with tempfile.TemporaryDirectory() as folder:
        with Standalone(Path(folder), SETTINGS, port=PORT, http_port=HTTP_PORT) as broker:
            for path, body in SET_UP:
                broker.ask("PUT", f"/admin/v2/{path}", body)  # 409 for what a standalone already has
            failed = _run(cases, classes, chosen.suite / "tests", chosen.timeout)
        sys.stderr.write(broker.log(20) + "\n")
    return 1 if failed else 0


def _run(cases: list[tuple[str, str]], classes: dict[str, str], folder: Path, timeout_s: float) -> int:
    sys.stdout.write("| group | case | result | seconds |\n|---|---|---|---|\n")
    counts: dict[str, int] = {}
    for group, case in cases:
        result, seconds, output = _run_one(classes.get(case), folder, timeout_s)
        counts[result] = counts.get(result, 0) + 1
        sys.stdout.write(f"| {group} | `{case}` | {result} | {seconds:.1f} |\n")
        sys.stdout.flush()
        if not result.startswith(GOOD):
            tail = "\n".join(output.splitlines()[-TAIL_LINES:])
            sys.stderr.write(f"--- {case}: {result}\n{tail}\n")
    sys.stdout.write("\n" + ", ".join(f"{count} {result}" for result, count in sorted(counts.items())) + "\n")
    return sum(count for result, count in counts.items() if not result.startswith(GOOD))


def _run_one(target: str | None, folder: Path, timeout_s: float) -> tuple[str, float, str]:
    if target is None:
        return "not in this checkout", 0.0, ""
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "unittest", target],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return "timed out", time.monotonic() - began, (error.stdout or b"").decode(errors="replace")
    output = done.stdout.decode(errors="replace")
    return _verdict(output, done.returncode), time.monotonic() - began, output


def _verdict(output: str, code: int) -> str:
    """What unittest said. The client's own threads can abort the interpreter behind a verdict of OK; that is told."""
    said = [line for line in output.splitlines() if line.startswith(("OK", "FAILED"))]
    if not said or said[-1].startswith("FAILED"):
        return "failed"
    if "skipped=" in said[-1]:
        return "skipped"
    return "passed" if code == 0 else f"passed, its process ended with {code}"


def _classes(folder: Path) -> dict[str, str]:
    """file:case -> what unittest is told, found by reading the files, not by importing them."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*_test.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith("test_"):
                        case = f"{path.stem.removesuffix('_test')}:{item.name.removeprefix('test_')}"
                        found[case] = f"{path.stem}.{node.name}.{item.name}"
    return found


if __name__ == "__main__":
    sys.exit(main())
