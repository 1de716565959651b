"""Times as people write and read them, in a zone of their own; inside, every time has a zone."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from everhold import clock
from everhold.errors import InvalidInput

_COUNTED = r"(\d{1,6}) (second|minute|hour|day|week)s?"
_AHEAD, _AGO = re.compile(f"in {_COUNTED}"), re.compile(f"{_COUNTED} ago")
_FORMS = "2025-03-01, 2025-03-01T09:30, 2025-03-01T09:30+07:00, 'in 3 days' or '3 days ago'"


def parse_time(written: str, zone: ZoneInfo, option: str) -> datetime:
    """A moment with a zone. A date is its first instant; a time without a zone is one of `zone`."""
    said = " ".join(written.lower().split())
    if said == "now":
        return clock.now()
    try:
        if ahead := _AHEAD.fullmatch(said):
            return clock.now() + _distance(ahead)
        if ago := _AGO.fullmatch(said):
            return clock.now() - _distance(ago)
        moment = datetime.fromisoformat(written.strip())
        return (moment.replace(tzinfo=zone) if moment.tzinfo is None else moment).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{option} {written!r} is not a time", value=written, remedy=f"write it as {_FORMS}"
        ) from None


def _distance(found: re.Match[str]) -> timedelta:
    return timedelta(**{found[2] + "s": int(found[1])})


def local(moment: datetime, zone: ZoneInfo) -> str:
    """A moment to the minute, for a table."""
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def local_with_zone(moment: datetime, zone: ZoneInfo) -> str:
    """A moment to the second, and where that is."""
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S} {zone.key}"
