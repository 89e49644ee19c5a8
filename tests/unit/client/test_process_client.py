"""One client for a process: shared by everybody in it, and never by a forked child."""

from __future__ import annotations

import os
import signal

import pytest

from magnetar.base.errors import NotFound
from magnetar.client.client import Client
from magnetar.client.process_client import run
from magnetar.client.read_client import ReadClient

URL = "pulsar://127.0.0.1:1"


async def itself(client: ReadClient) -> ReadClient:
    return client


def test_same_options_return_same_client_and_others_another() -> None:
    first = run(ReadClient, URL, itself)
    assert run(ReadClient, URL, itself) is first
    assert run(Client, URL, itself) is not first
    assert run(ReadClient, "pulsar://127.0.0.1:2", itself) is not first


def test_forked_child_gets_own_client_and_keeps_parent_client() -> None:
    mine = run(ReadClient, URL, itself)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        theirs = run(ReadClient, URL, itself)
        os._exit(7 if theirs is not mine and run(ReadClient, URL, itself) is theirs else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert run(ReadClient, URL, itself) is mine


def test_what_call_raises_is_raised_where_it_was_asked_for() -> None:
    async def refused(_: ReadClient) -> None:
        raise NotFound("there is nothing")

    with pytest.raises(NotFound):
        run(ReadClient, URL, refused)
