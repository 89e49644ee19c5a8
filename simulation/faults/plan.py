"""The faults of a world and their times: a plan drawn from its seed before the world runs, so that it can be printed,
cut down and run again.

Each seed switches on its own subset of kinds, with its own intensity. Most worlds have few kinds, with many faults
each; some have none, because a loud world hides what breaks in a quiet one. A plan is data and does not know its world:
`simulation/world/cluster.py` carries it out.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

QUIET_SHARE = 0.08  # of all worlds: no fault at all
STEP_SHARE = 0.6  # of the worlds with scalable topics: brokers die in the middle of a reshape, at a certain step
CALM_S = 0.5  # at the start nothing happens: brokers come up, clients attach

DAYS_S = 2 * 86_400.0  # a clock set forward by more than what is kept by default, by less than a hold lasts


class FaultKind(Enum):
    """A kind of fault and its target: BROKER (one of them), LINK (two hosts), STORE, LEDGERS."""

    CRASH = ("crash", "broker")  # the machine loses power: what was not synced may be gone
    KILL = ("kill", "broker")  # the process dies: the page cache survives
    RESTART = ("restart", "broker")  # in order, as an upgrade does it: SIGTERM, then it starts again
    PAUSE = ("pause", "broker")  # nothing of it runs for a while, longer than a session now and then
    JUMP = ("jump", "broker")  # its wall clock is set, forward or back
    SLOW_DISK = ("slow disk", "disk")
    FULL_DISK = ("full disk", "disk")
    SYNC_FAILS = ("sync fails", "disk")
    TEAR = ("tear", "disk")  # the power goes inside one of its next long writes
    CUT = ("cut", "link")  # bytes of one direction wait without notice
    PART = ("part", "link")  # both directions
    HOLD = ("hold", "link")  # one direction is late, all together
    LOSE = ("lose", "link")  # live connections are reset
    HALF_OPEN = ("half open", "link")  # one side is notified, the other is not
    DISCONNECT = ("disconnect", "session")  # a broker and its metadata store, within the session's time
    EXPIRE = ("expire", "session")  # its session ends and it is notified
    EXPIRE_UNTOLD = ("expire untold", "session")  # its session ends and it goes on believing
    ESTRANGE = ("estrange", "session")  # the same, and clients must look elsewhere while others stay
    STORE_OUT = ("store out", "store")  # no caller gets an answer
    APPEND_FAILS = ("append fails", "ledgers")
    APPEND_UNHEARD = ("append unheard", "ledgers")  # it landed, or not; its writer hears of a failure
    LEDGERS_OUT = ("ledgers out", "ledgers")  # they are unreachable
    LEDGERS_CUT = ("ledgers cut", "ledgers")  # one broker does not, and others may recover what it writes
    UNLOAD = ("unload", "admin")  # an operator unloads a namespace
    CLIENT_KILL = ("client kill", "client")  # its process dies without a word; another one with its names comes
    CLIENT_PAUSE = ("client pause", "client")  # longer than a broker waits for a sign of life, now and then
    AT_STEP = ("at a step", "step")  # something befalls the broker that takes a certain step of a reshape next

    def __init__(self, shown: str, target: str) -> None:
        self.shown = shown
        self.target = target


LOCAL_ONLY = frozenset({"disk"})  # brokers on one machine's disk
SHARED_ONLY = frozenset({"ledgers", "session", "store"})  # brokers on stores of their own
STEPS = (
    "takeover.won",
    "reshape.intended",
    "reshape.child_provisioned",
    "reshape.provisioned",
    "reshape.checked",
    "reshape.parent_sealed",
    "reshape.sealed",
    "reshape.seeded",
    "reshape.committed",
    "reshape.resumed",
    "topic.sealed",
    "latch.written",
    "deletion.marked",
    "subscription.raise",
)  # marks of scalable topics


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    kind: FaultKind
    where: tuple[str, ...]
    for_s: float = 0.0  # 0: immediately
    amount: float = 0.0  # what it means depends on the kind

    def __str__(self) -> str:
        lasting = f" for {self.for_s:.2f} s" if self.for_s else ""
        much = f" ({self.amount:g})" if self.amount else ""
        return f"{self.at_s:7.3f} {self.kind.shown} {' > '.join(self.where)}{lasting}{much}"


@dataclass(frozen=True, slots=True)
class FaultTargets:
    """The brokers, hosts and stores that faults may hit."""

    brokers: tuple[str, ...]
    clients: tuple[str, ...]
    shared: bool  # brokers on shared stores; else one broker on its own disk
    session_s: float
    peers: bool = False  # brokers talk to each other: their links can break


def draw_faults(place: FaultTargets, chaos_s: float, rng: random.Random) -> tuple[Fault, ...]:
    """The plan of one world, in order of time."""
    if rng.random() < QUIET_SHARE:
        return ()
    kinds = [kind for kind in FaultKind if kind.target not in (LOCAL_ONLY if place.shared else SHARED_ONLY)]
    kinds.remove(FaultKind.AT_STEP)
    chosen = rng.sample(kinds, rng.randint(1, min(6, len(kinds))))
    if place.peers and rng.random() < STEP_SHARE:
        chosen.append(FaultKind.AT_STEP)
    faults: list[Fault] = []
    for kind in chosen:
        faults += [_fault(kind, place, rng.uniform(CALM_S, chaos_s), rng) for _ in range(_times(rng))]
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


def _times(rng: random.Random) -> int:
    """Few of most kinds, many of some."""
    return rng.choice((1, 1, 2, 2, 3, 5, 8))


def _fault(kind: FaultKind, place: FaultTargets, at_s: float, rng: random.Random) -> Fault:
    broker = (rng.choice(place.brokers),)
    short_s = rng.choice((0.05, 0.2, 0.5, 1.0)) * rng.uniform(0.5, 1.5)
    match kind:
        case FaultKind.PAUSE:
            return Fault(at_s, kind, broker, for_s=rng.choice((short_s, place.session_s * rng.uniform(0.8, 2.0))))
        case FaultKind.TEAR:
            return Fault(at_s, kind, broker, for_s=short_s, amount=float(rng.randint(1, 3)))
        case FaultKind.CRASH if not place.shared:  # immediately, or inside one of its next disk calls
            return Fault(at_s, kind, broker, for_s=short_s, amount=float(rng.choice((0, rng.randint(1, 12)))))
        case FaultKind.CRASH | FaultKind.KILL | FaultKind.RESTART:
            return Fault(at_s, kind, broker, for_s=short_s)  # until it starts again
        case FaultKind.JUMP:
            return Fault(at_s, kind, broker, amount=rng.choice((-3600.0, -5.0, -0.2, 0.2, 5.0, DAYS_S)))
        case FaultKind.SLOW_DISK:
            return Fault(at_s, kind, broker, for_s=short_s, amount=rng.choice((5.0, 20.0, 100.0)))
        case FaultKind.FULL_DISK | FaultKind.SYNC_FAILS:
            return Fault(at_s, kind, broker, for_s=short_s)
        case FaultKind.CUT | FaultKind.PART | FaultKind.HOLD | FaultKind.LOSE | FaultKind.HALF_OPEN:
            return Fault(
                at_s, kind, _link(place, rng), for_s=0.0 if kind in (FaultKind.LOSE, FaultKind.HALF_OPEN) else short_s
            )
        case FaultKind.DISCONNECT:
            return Fault(at_s, kind, broker, for_s=min(short_s, place.session_s * 0.8))
        case FaultKind.ESTRANGE:
            return Fault(at_s, kind, (*broker, rng.choice(place.clients)), for_s=rng.uniform(0.02, 0.2))
        case FaultKind.EXPIRE | FaultKind.EXPIRE_UNTOLD | FaultKind.LEDGERS_CUT:
            return Fault(at_s, kind, broker, for_s=short_s)
        case FaultKind.STORE_OUT | FaultKind.LEDGERS_OUT:
            return Fault(at_s, kind, (), for_s=rng.choice((short_s, place.session_s * 1.5)))
        case FaultKind.APPEND_FAILS | FaultKind.APPEND_UNHEARD | FaultKind.UNLOAD:
            return Fault(at_s, kind, broker, amount=float(rng.randint(0, 1)))
        case FaultKind.CLIENT_KILL:
            return Fault(at_s, kind, (rng.choice(place.clients),), for_s=short_s)
        case FaultKind.AT_STEP:
            deeds = [FaultKind.CRASH, FaultKind.KILL, FaultKind.PAUSE, FaultKind.PAUSE, FaultKind.RESTART]
            deeds += [FaultKind.EXPIRE_UNTOLD, FaultKind.EXPIRE] if place.shared else []
            deed = rng.choice(deeds)
            lasts_s = place.session_s * rng.uniform(0.8, 2.0) if deed is FaultKind.PAUSE else short_s
            return Fault(at_s, kind, (rng.choice(STEPS), deed.name), for_s=lasts_s)
        case FaultKind.CLIENT_PAUSE:
            return Fault(at_s, kind, (rng.choice(place.clients),), for_s=rng.choice((short_s, 6.0)))


def _link(place: FaultTargets, rng: random.Random) -> tuple[str, str]:
    """A client and a broker, in one direction or the other; two brokers only where they talk to each other."""
    if place.peers and len(place.brokers) > 1 and rng.random() < 0.4:
        broker, other = rng.sample(place.brokers, 2)
        return broker, other
    ends = [rng.choice(place.clients), rng.choice(place.brokers)]
    rng.shuffle(ends)
    return ends[0], ends[1]


def shown(plan: Sequence[Fault]) -> Iterable[str]:
    return [str(fault) for fault in plan] or ["no faults"]
