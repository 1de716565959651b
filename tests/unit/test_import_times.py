"""Times and dates in the formats of many programs and countries."""

from datetime import UTC, datetime

import pytest

from everhold.importers.local_dates import DateOrder
from everhold.importers.times import TimeReader

MARCH_13 = datetime(2024, 3, 13, 18, 1, tzinfo=UTC)
NEW_YEAR = datetime(2023, 12, 31, 21, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    [
        "Wed Mar 13 18:01:00 2024", "Wed, 13 Mar 2024 18:01:00 GMT", "Wed, 13 Mar 2024 19:01:00 +0100",
        "Wed Mar 13 19:01:00 CET 2024", "Wed Mar 13 2024 19:01:00 GMT+0100 (Central European Standard Time)",
        "13.03.2024 18:01", "13/03/2024, 18:01:00", "03/13/2024 06:01 PM", "13-03-2024 18.01", "2024/3/13 18:01",
        "2024. 3. 13. 오후 6:01", "2024年3月13日 下午6:01", "١٣/٣/٢٠٢٤، ٦:٠١ م", "13/3/24, 6:01 μ.μ.",
        "13/03/2567 18:01",
        "13.03.24 г., 18:01 ч.", "18:01, 13/03/2024", "13. März 2024, 18:01 Uhr", "mer. 13 mars 2024 à 18:01",
        "13 de marzo de 2024 18:01", "March 13th, 2024 at 6:01 PM", "Mar 13, 2024, 6:01:00\u202fPM", "13-Mar-24 18:01",
        "20240313180100", 20240313180100, 1710352860, 1710352860000, "1710352860.0", 1710352860 * 10**9,
        "2024-03-13 18:01 UTC", "2024-03-14T01:01:00+07:00",
    ],
)  # fmt: skip
def test_complete_times_are_read(written: object) -> None:
    assert TimeReader(UTC).read(written) == MARCH_13


@pytest.mark.parametrize(
    "written",
    [
        "soon",
        "6:01 PM",
        "32.01.2024",
        "13/13/2024",
        "May 5",
        "2024-13-01",
        "Fri Mar 1 18:01:00 IST 2024",
        True,
        [],
        "x" * 99,
    ],
)
def test_invalid_times_are_refused(written: object) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        TimeReader(UTC).read(written)


@pytest.mark.parametrize(("order", "month", "day"), [("dmy", 4, 3), ("mdy", 3, 4)])
def test_the_order_of_dates_is_stated(order: DateOrder, month: int, day: int) -> None:
    assert TimeReader(UTC, order).read("03/04/2024") == datetime(2024, month, day, tzinfo=UTC)


def test_an_ambiguous_date_is_refused_until_the_order_is_known() -> None:
    reader = TimeReader(UTC)
    with pytest.raises(ValueError, match=r"'03/04/2024' may have the day or the month first; pass the order"):
        reader.read("03/04/2024")
    assert reader.find_order() is None
    reader.read("25/04/2024")
    assert reader.find_order() == "dmy"
    reader.read("04/25/2024")
    assert reader.find_order() is None


def test_times_without_a_zone_are_noted() -> None:
    reader = TimeReader(UTC)
    for written in (1710352860, "2024-03-13T18:01:00Z", "13.03.2024 18:01 GMT"):
        reader.read(written)
    assert not reader.has_naive
    reader.read("13.03.2024 18:01")
    assert reader.has_naive
