"""Counting on any path, and showing the counts as Prometheus text when somebody asks.

A counter or gauge is an object with an int (`published.value += 1`); there is no lock, no label lookup and no
Prometheus import on the way. Whatever exists once per topic or subscription is not kept here at all: a provider yields
it at scrape time. Names, types and labels are Pulsar's where Pulsar has the thing (all per-topic figures are gauges
there, totals too); our own begin with `magnetar_`. Samples of one family stand together, as the format demands, so one
scrape holds its own text in memory and no more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from magnetar.base.errors import AlreadyExists, Misuse
from magnetar.base.limits import METRIC_SAMPLES_PER_TURN

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]  # family, labels beside `cluster`, value; a counter's family without its _total
Provider = Callable[[], Iterable[Sample]]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Upper bounds of Pulsar's histograms, which it writes as one gauge a bucket, and how it spells them.
LATENCY_MS = (
    (0.5, 1, 5, 10, 20, 50, 100, 200, 1000),
    "le_0_5 le_1 le_5 le_10 le_20 le_50 le_100 le_200 le_1000 overflow",
)
ENTRY_BYTES = (
    (128, 512, 1024, 2048, 4096, 16384, 102400, 1048576),
    "le_128 le_512 le_1_kb le_2_kb le_4_kb le_16_kb le_100_kb le_1_mb le_overflow",
)


class Counter:
    """Only grows. `value += n`, by whoever counts."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Gauge:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0


class Histogram:
    """Counts by upper bound, and their sum. Plain lists: `observe` costs one bisection."""

    __slots__ = ("bounds", "count", "counts", "names", "sum")

    def __init__(self, shape: tuple[Sequence[float], str] = LATENCY_MS) -> None:
        self.bounds, names = shape
        self.names = names.split()
        self.counts = [0] * (len(self.bounds) + 1)
        self.count = 0
        self.sum: float = 0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.count += 1
        self.sum += value

    def samples(self, family: str, labels: Labels = ()) -> Iterator[Sample]:
        for name, count in zip(self.names, self.counts, strict=True):
            yield f"{family}_{name}", labels, count
        yield f"{family}_count", labels, self.count
        yield f"{family}_sum", labels, self.sum


class Metrics:
    """What one node counts. Made once, handed down; `render` is the only reader."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._types: dict[str, str] = {}
        self._kept: dict[str, dict[Labels, Counter | Gauge]] = {}
        self._histograms: dict[tuple[str, Labels], Histogram] = {}
        self._providers: list[Provider] = []

    def counter(self, family: str, **labels: str) -> Counter:
        """The same family and labels give the same counter."""
        found = self._child(family, "counter", labels, Counter)
        assert isinstance(found, Counter)
        return found

    def gauge(self, family: str, **labels: str) -> Gauge:
        found = self._child(family, "gauge", labels, Gauge)
        assert isinstance(found, Gauge)
        return found

    def histogram(self, family: str, shape: tuple[Sequence[float], str] = LATENCY_MS, **labels: str) -> Histogram:
        return self._histograms.setdefault((family, tuple(labels.items())), Histogram(shape))

    def provide(self, provider: Provider, **types: str) -> None:
        """Ask `provider` at every scrape. Its families are gauges unless `types` says counter."""
        for family, kind in types.items():
            self._declare(family, kind)
        self._providers.append(provider)

    def render(self) -> Iterator[str]:
        """The text in pieces, a family at a time; an empty piece now and then while samples are gathered lets a caller
        breathe."""
        lines: dict[str, list[str]] = {}
        for gathered, (family, labels, value) in enumerate(self._samples(), start=1):
            lines.setdefault(family, []).append(self._line(family, labels, value))
            if gathered % METRIC_SAMPLES_PER_TURN == 0:
                yield ""
        for family, body in lines.items():
            yield f"# TYPE {self._shown(family)} {self._types.get(family, 'gauge')}\n{''.join(body)}"

    def text(self) -> str:
        return "".join(self.render())

    def _samples(self) -> Iterator[Sample]:
        for family, children in self._kept.items():
            for labels, child in children.items():
                yield family, labels, child.value
        for (family, labels), histogram in self._histograms.items():
            yield from histogram.samples(family, labels)
        for provider in self._providers:
            yield from provider()

    def _line(self, family: str, labels: Labels, value: float) -> str:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in (("cluster", self.cluster), *labels))
        return f"{self._shown(family)}{{{inside}}} {_number(value)}\n"

    def _shown(self, family: str) -> str:
        return f"{family}_total" if self._types.get(family) == "counter" else family

    def _child(
        self, family: str, kind: str, labels: dict[str, str], make: Callable[[], Counter | Gauge]
    ) -> Counter | Gauge:
        self._declare(family, kind)
        children = self._kept.setdefault(family, {})
        key = tuple(labels.items())
        if key not in children:
            children[key] = make()
        return children[key]

    def _declare(self, family: str, kind: str) -> None:
        if kind not in ("counter", "gauge"):
            raise Misuse("a family is a counter or a gauge", family=family, kind=kind)
        if kind == "counter" and family.endswith("_total"):
            raise Misuse("a counter is named without _total: the text adds it", family=family)
        if self._types.setdefault(family, kind) != kind:
            raise AlreadyExists("the family is already of another type", family=family, kind=self._types[family])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    return repr(value)
