"""A campaign counts its inputs over several runs, and a finding is named by its seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import campaign
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("target", campaign.CODECS)
def test_round_of_each_codec_holds(target: str) -> None:
    campaign.run_round(target, seed=0, inputs=500)


def test_seed_decides_all_inputs() -> None:
    first = list(campaign.generate("commands", 7, 50))
    assert first == list(campaign.generate("commands", 7, 50))
    assert first != list(campaign.generate("commands", 8, 50))


def test_finding_names_target_seed_and_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(data: bytes) -> None:
        raise ValueError("a finding")

    monkeypatch.setitem(TARGETS, "message_ids", wrong)
    with pytest.raises(AssertionError, match=r"message_ids, seed 3, input 0: bytes\.fromhex"):
        campaign.run_round("message_ids", seed=3, inputs=1)


def test_later_run_continues_where_first_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state.json"
    words = ["message_ids", "--state", str(state), "--inputs"]
    campaign.main([*words, str(campaign.ROUND_INPUTS)])
    assert campaign.load(state)["message_ids"]["rounds"] == 1
    campaign.main([*words, str(campaign.ROUND_INPUTS * 2)])
    assert campaign.load(state)["message_ids"]["rounds"] == 2
    campaign.main([*words, str(campaign.ROUND_INPUTS)])
    assert campaign.load(state)["message_ids"]["rounds"] == 2
    assert f"| all | {campaign.ROUND_INPUTS * 2:,} |" in capsys.readouterr().out
