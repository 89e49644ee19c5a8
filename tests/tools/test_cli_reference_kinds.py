"""What the reference says of options that take choices, and of parameters that are not options."""

from __future__ import annotations

from magnetar.cli.main import build
from tools.cli_reference import page


def test_choices_are_listed_and_internal_parameters_left_out() -> None:
    text = page()
    assert "--sink" not in text
    assert "`--domain` `persistent` or `non-persistent` or `scalable`" in text
    assert "`--unset` FILE" not in text


def test_verb_that_writes_files_is_not_watched() -> None:
    app = build("spark")
    options = {name for one in app["spark"]["init"].assemble_argument_collection() for name in one.names}
    assert "--watch" not in options
