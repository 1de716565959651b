"""Find the day, week, month and year that a time belongs to."""

from datetime import date, datetime, timedelta, tzinfo
from typing import NamedTuple

from everhold.episodes.ids import make_episode_id
from everhold.model import Episode, Session
from everhold.model.episode import DAY, MONTH, WEEK, YEAR

PERIOD_LEVELS = (DAY, WEEK, MONTH, YEAR)


class CalendarPeriod(NamedTuple):
    """A day, week, month or year, with its level and its ISO name."""

    level: int
    name: str

    def make_id(self, owner: Session | Episode) -> str:
        """Return the id of the episode of this period for the user, project and agent of `owner`."""
        return make_episode_id(self.level, self.name, owner.user_id, owner.project_id, owner.agent_id)


def find_day(at: datetime | str, zone: tzinfo) -> date:
    """Return the day of a time in a time zone. The time may be a string in ISO format."""
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    try:
        return moment.astimezone(zone).date()
    except OverflowError:  # on the first or the last day of the calendar
        return moment.date()


def find_period(day: date, level: int) -> CalendarPeriod:
    """Return the period of this level that contains a day."""
    year, week, _ = day.isocalendar()
    names = {
        DAY: day.isoformat(),
        WEEK: f"{year:04}-W{week:02}",
        MONTH: day.isoformat()[:7],
        YEAR: day.isoformat()[:4],
    }
    return CalendarPeriod(level, names[level])


def list_periods(day: date) -> list[CalendarPeriod]:
    """Return the periods that contain a day: the day itself, its week, its month and its year."""
    return [find_period(day, level) for level in PERIOD_LEVELS]


def find_start(day: date, level: int) -> date:
    """Return the first day of the period of this level that contains a day."""
    if level == WEEK:
        return day - timedelta(days=min(day.weekday(), day.toordinal() - 1))
    return day.replace(month=1 if level == YEAR else day.month, day=day.day if level == DAY else 1)
