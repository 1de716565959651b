"""Times as people write and read them, in a zone of their own; inside, every time has a zone."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from recollect import clock
from recollect.errors import InvalidInput

_DISTANCE = re.compile(r"(?P<ahead>in )?(?P<count>\d{1,6}) (?P<unit>second|minute|hour|day|week)s?(?P<ago> ago)?")
_FORMS = "2025-03-01, 2025-03-01T09:30, 2025-03-01T09:30+07:00, 'in 3 days' or '3 days ago'"


def parse_time(written: str, zone: ZoneInfo, option: str) -> datetime:
    """A moment with a zone. A date is its first instant; a time without a zone is one of `zone`."""
    said = " ".join(written.lower().split())
    if said == "now":
        return clock.now()
    try:
        if distance := _DISTANCE.fullmatch(said):
            return _from_now(distance, written, option)
        moment = datetime.fromisoformat(written.strip())
        return (moment.replace(tzinfo=zone) if moment.tzinfo is None else moment).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(f"{option} {written!r} is not a time; write it as {_FORMS}") from None


def _from_now(distance: re.Match[str], written: str, option: str) -> datetime:
    if bool(distance["ahead"]) == bool(distance["ago"]):
        raise InvalidInput(f"{option} {written!r} may lie before or after now; write 'in {written}' or '{written} ago'")
    step = timedelta(**{distance["unit"] + "s": int(distance["count"])})
    return clock.now() + step if distance["ahead"] else clock.now() - step


def local(moment: datetime, zone: ZoneInfo) -> str:
    """A moment to the minute, for a table."""
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def local_with_zone(moment: datetime, zone: ZoneInfo) -> str:
    """A moment to the second, and where that is."""
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S} {zone.key}"
