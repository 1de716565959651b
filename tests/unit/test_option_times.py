"""Times that are typed as options of the command line."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from everhold import clock
from everhold.errors import InvalidInput
from everhold.interfaces.shared.times import Direction, parse_time

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
    ],
)
def test_a_time_is_read_in_the_zone(written: str, moment: datetime) -> None:
    assert parse_time(written, BANGKOK, "--at") == moment


@pytest.mark.parametrize(("durations", "sign"), [("ago", -1), ("ahead", 1)])
def test_a_plain_duration_is_in_the_past_or_the_future_by_the_option(durations: Direction, sign: int) -> None:
    for written, length in {"7d": timedelta(days=7), "12h": timedelta(hours=12), "3 days": timedelta(days=3)}.items():
        assert parse_time(written, BANGKOK, "--x", durations=durations) == NOW + sign * length


@pytest.mark.parametrize("written", ["soon", "7d", "3 days", "yesterday I ran", "2025-13-01", "in 999999 weeks", ""])
def test_other_texts_are_refused_with_the_valid_forms(written: str) -> None:
    with pytest.raises(InvalidInput, match="is not a time; write it as 2025-03-01"):
        parse_time(written, BANGKOK, "--at")
