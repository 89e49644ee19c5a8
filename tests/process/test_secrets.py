"""Known secrets are in no log, answer, metric or command line of a real broker (D8, D9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.standalone import Standalone

TOKEN = "eyJhbGciOiJIUzI1NiJ9.the-token-of-an-operator"
SHARED = "the-secret-that-brokers-share"
ASKED = [
    ("GET", "/admin/v2/tenants"),
    ("GET", "/admin/v2/no/such/path"),
    ("PUT", "/admin/v2/tenants/bad"),
    ("POST", "/admin/v2/peers"),
    ("GET", "/admin/v2/persistent/public/default/none/stats"),
    ("GET", "/admin/v2/persistent/public/default/none/examinemessage"),
    ("POST", f"/admin/v2/brokers/configuration/brokerClientAuthenticationParameters/{SHARED}"),
    ("GET", "/admin/v2/brokers/configuration/runtime"),
    ("GET", "/admin/v2/brokers/configuration/values"),
    ("GET", "/admin/v2/brokers/connections"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
]


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_nowhere_to_be_seen(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGNETAR_LOG", form)
    monkeypatch.setenv("MAGNETAR_LOG_LEVEL", "debug")
    settings = {"brokerClientAuthenticationParameters": f"token:{SHARED}", "myOwnPassword": "", "someKeyFile": SHARED}
    with Standalone(tmp_path, settings) as broker:
        seen = []
        for method, path in ASKED:
            answer = broker.ask(method, path, headers={"authorization": f"Bearer {TOKEN}"})
            seen.append(answer.text + str(answer.headers))
        seen.append(Path(f"/proc/{broker.pid}/cmdline").read_text())
    seen.append(broker.log(100_000))
    for text in seen:
        assert TOKEN not in text
        assert SHARED not in text
