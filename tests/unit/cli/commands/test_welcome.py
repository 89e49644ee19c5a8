"""What a broker says on a terminal when it is ready."""

from __future__ import annotations

from magnetar.cli.commands.welcome import access, welcome

READY = {
    "url": "pulsar://localhost:6650",
    "http": "http://localhost:8080",
    "version": "1.2.3",
    "data": "/srv/data",
    "bind": "0.0.0.0",
    "authentication": False,
}


def test_welcome_names_version_folder_access_and_next_command() -> None:
    said = welcome(READY)
    for words in ("Magnetar 1.2.3", "pulsar://localhost:6650", "/srv/data", "without authentication", "Ctrl-C"):
        assert words in said
    assert "magnetar message produce hello world\n" in said
    assert all(len(line) <= 100 for line in said.splitlines())


def test_other_ports_are_in_next_command() -> None:
    said = welcome({**READY, "url": "pulsar://localhost:7777"})
    assert "hello world --url pulsar://localhost:7777 --admin-url http://localhost:8080" in said


def test_access_says_who_reaches_broker() -> None:
    assert access("127.0.0.1", authentication=False) == "programs on this machine only, without authentication"
    assert "every machine that reaches 10.0.0.1" in access("10.0.0.1", authentication=False)
    assert "without" not in access("0.0.0.0", authentication=True)


def test_banner_says_how_to_change_who_reaches_it() -> None:
    assert "--bind-address 127.0.0.1 keeps it to this machine" in welcome(READY)
    assert "--bind-address 0.0.0.0 lets other machines connect" in welcome({**READY, "bind": "127.0.0.1"})
