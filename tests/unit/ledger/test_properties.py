"""What a client may call a property, and what is made of a broker's own that it did not write (D10)."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Refused
from magnetar.base.limits import PROPERTY_NUMBER_MAX
from magnetar.ledger.properties import check_given, number


def test_property_of_broker_is_refused_by_name() -> None:
    check_given({"owner": "me", "magnetar": "x", "my.magnetar.seal-term": "1"})
    with pytest.raises(Refused, match=r"reserved for the broker, .*: magnetar\.seal-term"):
        check_given({"owner": "me", "magnetar.seal-term": "1"})


@pytest.mark.parametrize(
    ("text", "means"),
    [
        (None, -1),
        ("0", 0),
        ("7", 7),
        ("-1", -1),
        (str(PROPERTY_NUMBER_MAX), PROPERTY_NUMBER_MAX),
        (str(PROPERTY_NUMBER_MAX + 1), -1),
        ("4611686018427387904", -1),
        ("9" * 5000, -1),
        ("xyz", -1),
        ("", -1),
        ("-7", -1),
        ("1_0", -1),
        ("\u0663", -1),
    ],
)
def test_number_that_no_broker_wrote_is_default(text: str | None, means: int) -> None:
    assert number({} if text is None else {"magnetar.x": text}, "magnetar.x", -1) == means
