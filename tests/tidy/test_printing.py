"""Payloads, bodies, stored values and credentials are hidden when an object is printed: a `repr` ends in a log (D8)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.repository import Source, sources

BYTES = re.compile(r"\b(bytes|bytearray|memoryview|Body)\b")
CREDENTIAL = re.compile(r"token|password|secret|credential|authorization|auth_data|headers")
# Neither what an application wrote nor a credential, or of a class that hides it itself.
SHOWN = {
    "EncodedRange.written",  # ranges of a plan
    "ManagedConfig.publish_time_of",
    "Process.token",  # random: which life of a process
    "PushedFilters.keys",  # of the query, which Spark shows too
    "RegisteredSchema.data",
    "Request.authorization",  # a Secret
    "Row.value",  # a row of sqlite, which does not leave the store
    "Run.token",  # random: which run of a query
    "Schema.data",
    "SchemaBody.data",
    "Body.data",  # of a schema
    "SealResult.dedup",  # names and sequence ids of producers
    "SealSummary.dedup",
    "SeedDedup.dedups",
    "SettingSpec.is_secret",
    "Sink.token",  # random: which writer
    "Stamp.producer",
    "Stamp.schema_version",
    "TopicStatsView.document",
}


def printed(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ClassDef) or not _prints_fields(node):
            continue
        for line in node.body:
            if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
                continue
            name = line.target.id
            hidden = line.value is not None and "repr=False" in ast.unparse(line.value)
            if (BYTES.search(ast.unparse(line.annotation)) or CREDENTIAL.search(name)) and not hidden:
                yield f"{node.name}.{name}"


def _prints_fields(node: ast.ClassDef) -> bool:
    if any(isinstance(line, ast.FunctionDef) and line.name == "__repr__" for line in node.body):
        return False
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    if any("dataclass" in mark for mark in marks):
        return not any("repr=False" in mark for mark in marks)
    return any(re.search("Struct|NamedTuple", ast.unparse(base)) for base in node.bases)


def test_no_printed_object_shows_payload_or_credential() -> None:
    searched = [source for source in sources() if source.path.startswith("src/") and "generated" not in source.path]
    assert sorted({field for source in searched for field in printed(source)} - SHOWN) == []


def test_field_that_repr_shows_is_found() -> None:
    text = "@dataclass\nclass A:\n    body: bytes\n    token: str\n    more: bytes = field(repr=False)\n"
    assert list(printed(Source("src/a.py", text))) == ["A.body", "A.token"]
    assert list(printed(Source("src/a.py", text + "    def __repr__(self): return ''\n"))) == []
