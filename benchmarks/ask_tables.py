"""Up to 1,000 sample tables, and questions about one table each."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

ROWS = 30
_SUBJECT_WORDS = """
harbour engine forest museum school bridge cinema garden hospital library airport hotel restaurant bakery theatre
stadium factory warehouse railway castle lighthouse vineyard quarry mine dairy brewery pharmacy clinic kennel zoo
aquarium gallery archive observatory laboratory reactor windmill refinery shipyard tannery foundry studio orchestra
choir circus festival market auction bank insurance court prison embassy parliament ministry monastery temple
cathedral cemetery canal reservoir dam tunnel highway ferry tram taxi bicycle scooter drone satellite telescope
antenna cable server router laptop phone camera tailor jeweller florist butcher grocer fishmonger optician dentist
surgeon nurse midwife teacher author painter sculptor glacier desert island volcano lagoon meadow
"""
_NAME_WORDS = """
Anna Bert Carla David Elif Farid Greta Hugo Ines Jan Kira Leon Mona Nils Olga Paul Rosa Sven Tara Uwe
"""
_SURNAME_WORDS = "Weber Jansen Rossi Cohen Demir Haddad Olsen Martin Costa Novak Petrov Silva Tanaka Varga Walsh"


@dataclass(frozen=True)
class TableKind:
    """The columns of tables of one kind: a person, a text and a measure, beside an id and a date."""

    name: str
    person: str
    text: str
    words: tuple[str, ...]
    measure: str


KINDS = (
    TableKind("visits", "visitor", "purpose", ("tour", "business", "study"), "duration"),
    TableKind("repairs", "mechanic", "part", ("roof", "pump", "door"), "cost"),
    TableKind("invoices", "payer", "currency", ("euro", "dollar", "yen"), "amount"),
    TableKind("inspections", "inspector", "finding", ("rust", "leak", "noise"), "grade"),
    TableKind("purchases", "buyer", "product", ("lamp", "chair", "carpet"), "price"),
    TableKind("complaints", "complainant", "topic", ("smell", "delay", "dirt"), "severity"),
    TableKind("deliveries", "supplier", "destination", ("Lisbon", "Oslo", "Vienna"), "weight"),
    TableKind("bookings", "guest", "season", ("spring", "summer", "winter"), "deposit"),
    TableKind("salaries", "employee", "department", ("kitchen", "office", "workshop"), "bonus"),
    TableKind("lectures", "speaker", "language", ("Danish", "Greek", "Polish"), "attendance"),
)


@dataclass(frozen=True)
class SampleTable:
    """A table about one subject."""

    subject: str
    kind: TableKind

    @property
    def name(self) -> str:
        return f"{self.subject}_{self.kind.name}"


def list_tables(count: int) -> list[SampleTable]:
    """Return `count` tables, at most 1,000; neighbours are about the same subject and have different kinds."""
    tables = [SampleTable(subject, kind) for subject in _SUBJECT_WORDS.split() for kind in KINDS]
    return tables[:count]


def write_tables(path: Path, tables: list[SampleTable], rows: int = ROWS) -> None:
    """Write tables to a SQLite file. The rows of a table do not depend on the other tables in the file."""
    connection = sqlite3.connect(path)
    with connection:
        for table in tables:
            kind, rng = table.kind, Random(table.name)
            columns = f"{kind.person} TEXT, {kind.text} TEXT, day TEXT, {kind.measure} REAL"
            connection.execute(f"CREATE TABLE {table.name} (id INTEGER PRIMARY KEY, {columns})")
            values = [(number + 1, *_make_row(kind, rng)) for number in range(rows)]
            connection.executemany(f"INSERT INTO {table.name} VALUES (?, ?, ?, ?, ?)", values)
    connection.close()


def _make_row(kind: TableKind, rng: Random) -> tuple[Any, ...]:
    person = f"{rng.choice(_NAME_WORDS.split())} {rng.choice(_SURNAME_WORDS.split())}"
    day = f"{rng.randint(2020, 2024)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return person, rng.choice(kind.words), day, round(rng.uniform(1, 500), 2)


def make_question(table: SampleTable, number: int) -> str:
    """Return a question about a table; `number` chooses what is asked."""
    kind = table.kind
    rows = f"{table.subject} {kind.name}"
    forms = (
        f"How many {rows} are there?",
        f"What is the average {kind.measure} of {rows}?",
        f"Show the number of {rows} per {kind.text}",
        f"List the {kind.person} of {rows} with {kind.measure} above {number + 10}",
        f"What is the total {kind.measure} of {rows} in 2023?",
        f"Which {kind.person} of {rows} has the highest {kind.measure}?",
        f"How many {rows} have {kind.text} {kind.words[number % 3]}?",
    )
    return forms[number % len(forms)]
