"""Times that are typed as options of the command line."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from everhold import clock
from everhold.errors import InvalidInput
from everhold.interfaces.shared.times import Direction, parse_expiry, parse_time

BANGKOK = ZoneInfo("Asia/Bangkok")
NOW = datetime(2026, 11, 16, 20, 20, tzinfo=UTC)  # already 17 November in Bangkok


@pytest.fixture(autouse=True)
def stop_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("now", NOW),
        ("2025-03-01", datetime(2025, 2, 28, 17, tzinfo=UTC)),
        ("2025-03-01T09:30", datetime(2025, 3, 1, 2, 30, tzinfo=UTC)),
        ("2025-03-01T09:30+01:00", datetime(2025, 3, 1, 8, 30, tzinfo=UTC)),
        ("today", datetime(2026, 11, 16, 17, tzinfo=UTC)),
        (" Yesterday ", datetime(2026, 11, 15, 17, tzinfo=UTC)),
        ("tomorrow", datetime(2026, 11, 17, 17, tzinfo=UTC)),
        ("last week", datetime(2026, 11, 8, 17, tzinfo=UTC)),
        ("2 days ago", NOW - timedelta(days=2)),
        ("90m ago", NOW - timedelta(minutes=90)),
        ("in  3 Days", NOW + timedelta(days=3)),
        ("in 2w", NOW + timedelta(weeks=2)),
        ("in a week", NOW + timedelta(weeks=1)),
        ("a week from now", NOW + timedelta(weeks=1)),
        ("in two weeks", NOW + timedelta(weeks=2)),
        ("in an hour", NOW + timedelta(hours=1)),
        ("an hour ago", NOW - timedelta(hours=1)),
        ("in a month", NOW.replace(month=12)),
        ("in 3 years", NOW.replace(year=2029)),
        ("9 months ago", NOW.replace(month=2)),
        ("friday", datetime(2026, 11, 12, 17, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_in_the_zone(written: str, moment: datetime) -> None:
    assert parse_time(written, BANGKOK, "--at") == moment


@pytest.mark.parametrize(("durations", "sign"), [("ago", -1), ("ahead", 1)])
def test_a_plain_duration_is_in_the_past_or_the_future_by_the_option(durations: Direction, sign: int) -> None:
    for written, length in {"7d": timedelta(days=7), "12h": timedelta(hours=12), "3 days": timedelta(days=3)}.items():
        assert parse_time(written, BANGKOK, "--x", durations=durations) == NOW + sign * length


def test_an_expiry_is_in_the_future() -> None:
    assert parse_expiry("friday", BANGKOK, "--expires") == datetime(2026, 11, 19, 17, tzinfo=UTC)
    for written in ("yesterday", "0d", "now", "today", "2020-01-01"):
        with pytest.raises(
            InvalidInput, match=f"--expires '{written}' is not in the future: it means .*; write a later"
        ):
            parse_expiry(written, BANGKOK, "--expires")


def test_a_month_ends_on_its_last_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: datetime(2027, 1, 31, 9, tzinfo=UTC))
    assert parse_time("in a month", BANGKOK, "--at") == datetime(2027, 2, 28, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    ["soon", "7d", "3 days", "yesterday I ran", "2025-13-01", "in 999999 weeks", "in a few days", "until friday", ""],
)
def test_other_texts_are_refused_with_the_valid_forms(written: str) -> None:
    with pytest.raises(InvalidInput, match="is not a time; write it as 2025-03-01"):
        parse_time(written, BANGKOK, "--at")
