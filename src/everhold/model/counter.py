"""Counters of the engine.

They are not in `housekeeping.py`, because every search reads one, and importing the other entities of that module takes
longer than reading it.
"""

from everhold.model.base import Row
from everhold.model.fields import Integer, Name


class Counter(Row):
    """A number that the engine keeps under a name, for example the number of purges."""

    name: Name
    value: Integer = 0
