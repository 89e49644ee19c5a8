"""Counters for any code path, and their output as Prometheus text.

A counter or gauge is an object with an int (`published.value += 1`), without a lock, a label lookup or a Prometheus
import. Values per topic or subscription are not stored here: a provider yields them at each scrape. Names and labels
are Pulsar's if Pulsar has the metric; our own names begin with `magnetar_`. Types and help come from the table in
`families.py`. The format requires all samples of a family together, so one scrape holds only its own text in memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from magnetar.base.errors import AlreadyExists, Misuse
from magnetar.base.limits import METRIC_SAMPLES_PER_TURN
from magnetar.observe.families import FAMILIES

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]  # family, labels beside `cluster`, value; a counter's family without its _total
Provider = Callable[[], Iterable[Sample]]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Upper bounds of Pulsar's histograms, which it writes as one gauge per bucket, and their spelling.
LATENCY_MS = (
    (0.5, 1, 5, 10, 20, 50, 100, 200, 1000),
    "le_0_5 le_1 le_5 le_10 le_20 le_50 le_100 le_200 le_1000 overflow",
)
ENTRY_BYTES = (
    (128, 512, 1024, 2048, 4096, 16384, 102400, 1048576),
    "le_128 le_512 le_1_kb le_2_kb le_4_kb le_16_kb le_100_kb le_1_mb le_overflow",
)


class Counter:
    """A number that only increases. The counting code uses `value += n`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Gauge:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0


class Histogram:
    """Counts by upper bound, and the sum of the observed values. Plain lists: `observe` costs one bisection."""

    __slots__ = ("bounds", "counts", "names", "sum")

    def __init__(self, shape: tuple[Sequence[float], str] = LATENCY_MS) -> None:
        self.bounds, names = shape
        self.names = names.split()
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum: float = 0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def add(self, other: Histogram) -> None:
        """Adds all counts of another histogram of the same form."""
        for index, count in enumerate(other.counts):
            self.counts[index] += count
        self.sum += other.sum

    def copy(self) -> Histogram:
        copy = Histogram((self.bounds, " ".join(self.names)))
        copy.add(self)
        return copy

    def since(self, before: Histogram) -> Histogram:
        """The counts since `before`, an earlier copy of this histogram."""
        difference = self.copy()
        for index, count in enumerate(before.counts):
            difference.counts[index] -= count
        difference.sum -= before.sum
        return difference

    def quantile(self, share: float) -> float:
        """Interpolates inside a bucket; the last bucket has no upper bound and gives its lower bound. NaN without
        values.
        """
        if not self.count:
            return float("nan")
        left, low = share * self.count, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            if left <= count:
                return low + (bound - low) * (left / count if count else 0.0)
            left, low = left - count, bound
        return low

    def samples(self, family: str, labels: Labels = ()) -> Iterator[Sample]:
        for name, count in zip(self.names, self.counts, strict=True):
            yield f"{family}_{name}", labels, count
        yield f"{family}_count", labels, self.count
        yield f"{family}_sum", labels, self.sum


class Metrics:
    """The metrics of one node. Created once and passed down; only `render` reads it."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._types: dict[str, str] = {}
        self._kept: dict[str, dict[Labels, Counter | Gauge]] = {}
        self._histograms: dict[tuple[str, Labels], Histogram] = {}
        self._providers: list[Provider] = []

    def counter(self, family: str, **labels: str) -> Counter:
        """The same family and labels give the same counter."""
        counter = self._child(family, "counter", labels, Counter)
        assert isinstance(counter, Counter)
        return counter

    def gauge(self, family: str, **labels: str) -> Gauge:
        gauge = self._child(family, "gauge", labels, Gauge)
        assert isinstance(gauge, Gauge)
        return gauge

    def histogram(self, family: str, shape: tuple[Sequence[float], str] = LATENCY_MS, **labels: str) -> Histogram:
        return self._histograms.setdefault((family, tuple(labels.items())), Histogram(shape))

    def provide(self, provider: Provider, **types: str) -> None:
        """Calls `provider` at every scrape. Its families are gauges unless `types` says counter."""
        for family, kind in types.items():
            self._declare(family, kind)
        self._providers.append(provider)

    def render(self) -> Iterator[str]:
        """Yields the text family by family; empty pieces while samples are gathered let the caller run other tasks."""
        lines: dict[str, list[str]] = {}
        for gathered, (family, labels, value) in enumerate(self._samples(), start=1):
            lines.setdefault(family, []).append(self._line(family, labels, value))
            if gathered % METRIC_SAMPLES_PER_TURN == 0:
                yield ""
        written: set[str] = set()
        for family, body in lines.items():
            shown = self._shown(family)
            whole = _parent(shown)
            known_family = FAMILIES.get(whole)
            if whole not in written:
                kind = self._types.get(family, "gauge") if known_family is None else known_family.kind
                help = "" if known_family is None else f"# HELP {whole} {known_family.help}\n"
                yield f"{help}# TYPE {whole} {kind}\n"
                written.add(whole)
            yield "".join(body)

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
        """A counter declared by its complete name keeps it: some of Pulsar's do not end with _total."""
        return f"{family}_total" if self._types.get(family) == "counter" and family not in FAMILIES else family

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
            raise Misuse("a family must be a counter or a gauge", family=family, kind=kind)
        if kind == "counter" and family.endswith("_total") and family not in FAMILIES:
            raise Misuse("a counter's name must not end with _total: the text adds it", family=family)
        if self._types.setdefault(family, kind) != kind:
            raise AlreadyExists("the family already has another type", family=family, kind=self._types[family])


def _parent(shown: str) -> str:
    """The family of a sample: the parts of a histogram and of a summary belong to one family."""
    for ending in ("_bucket", "_sum", "_count"):
        whole = shown.removesuffix(ending)
        if whole != shown and whole in FAMILIES and FAMILIES[whole].kind in ("histogram", "summary"):
            return whole
    return shown


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    if value != value:
        return "NaN"
    return repr(value)
