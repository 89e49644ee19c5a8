"""Every target against recorded bytes, mutations of them found by hypothesis, and a share of the fuzzing budget."""

from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.run import apart
from tests.fuzz.targets import SEEDS, TARGETS

EXAMPLES = 1_500


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A recorded input with some bytes changed, cut out or put in; or plain noise."""
    if not seeds or draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 6))):
        place = draw(st.integers(0, len(data)))
        change = draw(st.integers(0, 3))
        if change == 0:
            del data[place : place + draw(st.integers(1, 8))]
        elif change == 1:
            data[place:place] = draw(st.binary(min_size=1, max_size=12))
        elif change == 2 and data:
            data[place % len(data)] = draw(st.integers(0, 255))
        elif change == 3:
            other = draw(st.sampled_from(seeds))
            cut = draw(st.integers(0, len(other)))
            data[place:] = other[cut:]
    return bytes(data)


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_recorded_bytes_and_all_their_beginnings(target):
    for seed in SEEDS.get(target, list)():
        TARGETS[target](seed)
    for seed in SEEDS.get(target, list)()[:20]:
        for end in range(min(len(seed), 100)):
            TARGETS[target](seed[:end])


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_mutations_of_recorded_bytes(target):
    seeds = SEEDS.get(target, list)()

    @settings(max_examples=EXAMPLES, derandomize=True, database=None)
    @given(mutated(seeds))
    def holds(data: bytes) -> None:
        TARGETS[target](data)

    holds()


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_what_coverage_leads_to(target, fuzz_s):
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed: no wheel for this Python or machine")
    assert apart(target, max(int(fuzz_s), 1)) == 0
