"""Commands and metadata built field by field, in every way protobuf's encoding allows and some it does not.

Driven by a seeded generator, so that thousands of them cost a second. Most are sound, with one or two oddities: a
reader that is wrong about the oddity is wrong about something protobuf accepts, not merely about noise that
everybody refuses.
"""

from __future__ import annotations

from random import Random

EDGES = [0, 1, 2, 3, 4, 5, 6, 10, 11, 127, 128, 16383, 16384, 2**21, 2**28, 2**31 - 1, 2**31, 2**32 - 1, 2**32]
EDGES += [2**35, 2**63 - 1, 2**63, 2**64 - 1]


class Grammar:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)

    def rarely(self, one_in: int) -> bool:
        return self.chance.randrange(one_in) == 0

    def number(self) -> int:
        chance = self.chance
        return chance.choice(EDGES) if chance.random() < 0.7 else chance.getrandbits(chance.choice((7, 14, 32, 64)))

    def varint(self, value: int | None = None) -> bytes:
        """Now and then longer than it needs to be, longer than it may be, or with bits beyond the sixty-fourth."""
        left = self.number() if value is None else value
        out = bytearray()
        while left >= 128:
            out.append(left & 127 | 128)
            left >>= 7
        out.append(left)
        if self.rarely(25):
            for _ in range(self.chance.choice((1, 1, 2, 10 - len(out), 11 - len(out)))):
                out[-1] |= 128
                out.append(0)
        if value is None and self.rarely(60):
            out = bytearray(self.chance.randbytes(self.chance.choice((9, 10))))
            out[:-1] = bytes(byte | 128 for byte in out[:-1])
            out[-1] &= 127
        return bytes(out)

    def field(self, number: int, kind: int, depth: int = 1) -> bytes:
        tag = self.varint(number << 3 | kind)
        if kind == 0:
            return tag + self.varint()
        if kind == 1:
            return tag + self.chance.randbytes(8)
        if kind == 5:
            return tag + self.chance.randbytes(4)
        if kind == 2:
            return tag + self.sized(self.inside(depth))
        if kind == 3:
            return tag + (self.strange(depth - 1) if depth else b"") + self.varint(number << 3 | 4)
        return tag

    def sized(self, data: bytes) -> bytes:
        size = len(data) + (self.chance.choice((-1, 1, 200)) if self.rarely(60) else 0)
        return self.varint(max(size, 0)) + data

    def inside(self, depth: int) -> bytes:
        if depth and self.rarely(2):
            return self.strange(depth - 1)
        if self.rarely(2):
            return b"".join(self.varint() for _ in range(self.chance.randrange(4)))  # a packed field
        return self.chance.choice((b"", b"text", b"\xff\xfe", "é".encode()))

    def strange(self, depth: int = 1) -> bytes:
        """A field nobody expects here."""
        kind = self.chance.choice((0, 0, 2, 2, 1, 5, 3)) if not self.rarely(30) else self.chance.choice((4, 6, 7))
        return self.field(
            self.chance.choice((0, 12, 12, 15, 16, 100, 5000) if self.rarely(5) else (12, 90)), kind, depth
        )

    def mixed(self, parts: list[bytes]) -> bytes:
        """Parts in order, mostly; now and then one is missing, twice there, or elsewhere."""
        if self.rarely(6):
            parts.insert(self.chance.randrange(len(parts) + 1), self.strange())
        if self.rarely(8) and parts:
            parts.insert(self.chance.randrange(len(parts) + 1), self.chance.choice(parts))
        if self.rarely(12) and parts:
            parts.remove(self.chance.choice(parts))
        if self.rarely(8):
            self.chance.shuffle(parts)
        return b"".join(parts)

    def some(self, numbers: tuple[int, ...], kind: int = 0) -> list[bytes]:
        return [self.field(number, kind) for number in numbers if self.rarely(3)]

    def message_id(self) -> bytes:
        parts = [self.field(1, 0), self.field(2, 0), *self.some((3, 4)), *self.some((5, 5, 5)), *self.some((6,))]
        if self.rarely(12):
            parts.append(self.field(5, 2))  # packed
        if self.rarely(15):
            parts.append(self.varint(7 << 3 | 2) + self.sized(self.message_id()))
        return self.mixed(parts)

    def send(self) -> bytes:
        parts = [self.field(1, 0), self.field(2, 0), *self.some((3, 4, 5, 6, 7, 8))]
        if self.rarely(10):
            parts.append(self.varint(9 << 3 | 2) + self.sized(self.message_id()))
        return self.mixed(parts)

    def ack(self) -> bytes:
        kind = self.chance.choice((0, 1)) if not self.rarely(12) else self.number()
        parts = [self.field(1, 0), self.varint(2 << 3) + self.varint(kind)]
        ids = [self.message_id() for _ in range(self.chance.randrange(4))]
        parts += [self.varint(3 << 3 | 2) + self.sized(data) for data in ids]
        parts += self.some((4, 6, 7, 8))
        if self.rarely(12):
            inside = self.mixed([b"\x0a" + self.sized(self.chance.choice((b"k", b"\xff"))), self.field(2, 0)])
            parts.append(self.varint(5 << 3 | 2) + self.sized(inside))
        return self.mixed(parts)

    def flow(self) -> bytes:
        return self.mixed([self.field(1, 0), self.field(2, 0)])

    def command(self) -> bytes:
        kind = self.chance.choice((6, 6, 10, 10, 11))
        inside = self.send() if kind == 6 else self.ack() if kind == 10 else self.flow()
        stated = kind if not self.rarely(20) else self.chance.choice((6, 10, 11, 18, 41, 1000, 2**32 + 6))
        return self.mixed([b"\x08" + self.varint(stated), self.varint(kind << 3 | 2) + self.sized(inside)])

    def metadata(self) -> bytes:
        texts = [
            self.varint(number << 3 | 2) + self.sized(self.chance.choice((b"", b"key", b"a2V5", b"\xff")))
            for number in (1, 6, 18, 26)
        ]
        parts = [text for text in texts if not self.rarely(3)]
        parts += self.some((2, 3, 8, 9, 11, 12, 17, 19, 20, 22, 23, 24, 25, 27, 28, 29, 30, 31, 33, 34))
        parts += self.some((7, 13, 14, 15, 16, 32), 2)
        return self.mixed(parts)
