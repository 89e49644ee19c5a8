"""A client on a bare socket that says whatever bytes a test likes, and reads answers, or does not."""

from __future__ import annotations

import socket
from collections import deque
from typing import Any

from magnetar.wire import frames
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

ANSWER_S = 60.0
FRAME_BYTES_MAX = 128 * 1024 * 1024
T = pb.BaseCommand


class Talker:
    """CONNECT is said and answered unless `connected` is false."""

    def __init__(self, port: int, *, connected: bool = True, version: str = "hostile") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self._bytes = b""
        self._commands: deque[pb.BaseCommand] = deque()
        if connected:
            self.say(a_command(T.CONNECT, client_version=version, protocol_version=21))
            answer = self.hear()
            assert answer.type == T.CONNECTED, answer

    def __enter__(self) -> Talker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def say_if_heard(self, data: bytes) -> None:
        """Where the broker may hang up in the middle of it."""
        try:
            self.socket.sendall(data)
        except OSError:
            pass

    def hear(self, *, pings: bool = False) -> pb.BaseCommand:
        """The next answer; the broker's PING is answered on the way. ConnectionError: shut out."""
        while True:
            while self._commands:
                command = self._commands.popleft()
                if command.type == T.PING:
                    self.say(a_command(T.PONG))
                elif pings or command.type != T.PONG:
                    return command
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionResetError("shut out")
            self._bytes += data
            found, consumed = frames.split(self._bytes, 0, FRAME_BYTES_MAX)
            for start, end, _ in found:
                known = frames.decode_command(self._bytes, start, end)
                assert known is not None
                self._commands.append(known)
            self._bytes = self._bytes[consumed:]

    def ask(self, kind: int, **fields: Any) -> pb.BaseCommand:
        self.say(a_command(kind, **fields))
        return self.hear()

    def ask_many(self, commands: list[bytes], at_once: int = 200) -> list[pb.BaseCommand]:
        """All answers, some hundred questions at a time."""
        found = []
        for first in range(0, len(commands), at_once):
            some = commands[first : first + at_once]
            self.say(b"".join(some))
            found += [self.hear() for _ in some]
        return found

    def shut_out(self) -> bool:
        """Read to the end; whether there is one."""
        try:
            while self.socket.recv(1 << 18):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def works(self) -> bool:
        """Whether the broker still answers here."""
        try:
            self.say(a_command(T.PING))
            return self.hear(pings=True).type == T.PONG
        except OSError:
            return False


def a_command(kind: int, **fields: Any) -> bytes:
    return encode_command(command(kind, **fields))


def command(kind: int, **fields: Any) -> pb.BaseCommand:
    made = pb.BaseCommand(type=kind)  # type: ignore[arg-type]
    body = getattr(made, frames._FIELD_OF_TYPE[kind])
    body.SetInParent()
    for name, value in fields.items():
        if isinstance(value, dict):
            for key, inner in value.items():
                setattr(getattr(body, name), key, inner)
        elif isinstance(value, list):
            for item in value:
                getattr(body, name).add(**item)
        else:
            setattr(body, name, value)
    return made
