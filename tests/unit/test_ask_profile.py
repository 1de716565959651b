"""Profiles of tables: the words of names, kinds of columns, keys, display columns and values."""

import pytest

from everhold.ask.joins import find_joins
from everhold.ask.profile.build import build_schema
from everhold.ask.profile.names import split_name
from everhold.ask.schema import AskSchema, ColumnKind, ColumnRef, ForeignKey
from everhold.ask.values import ValueIndex
from everhold.errors import InvalidInput
from everhold.ports.table_content import Cell, ColumnContent, DeclaredKey, TableContent


def make_column(name: str, *values: Cell, kind: str = "") -> ColumnContent:
    return ColumnContent(name, kind, tuple(dict.fromkeys(values)), len(set(values)), 0)


def make_table(name: str, *columns: ColumnContent, key: str = "", keys: tuple[DeclaredKey, ...] = ()) -> TableContent:
    rows = max(column.distinct_count for column in columns)
    return TableContent(name, rows, columns, (key,) if key else (), keys)


AIRLINES = make_table(
    "airlines", make_column("uid", 1, 2, 3), make_column("Airline", "Delta", "Jet Blue", "United"), key="uid"
)
AIRPORTS = make_table(
    "airports",
    make_column("AirportCode", "APG", "BOS", "JFK"),
    make_column("City", "Aberdeen ", "Boston", "New York"),
    key="AirportCode",
)
FLIGHTS = make_table(
    "flights",
    make_column("Airline", 1, 2),
    make_column("FlightNo", 28, 44, 54, 90),
    make_column("SourceAirport", " APG", " BOS"),
    make_column("DestAirport", "JFK", "BOS"),
    keys=(DeclaredKey("DestAirport", "Airports", "airportcode"),),
)


@pytest.fixture(scope="module")
def flights() -> AskSchema:
    return build_schema([AIRLINES, AIRPORTS, FLIGHTS])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Num_of_Staff", ("number", "staff")),
        ("CountryAbbrev", ("country", "abbreviation")),
        ("fname", ("first", "name")),
        ("stuid", ("student", "id")),
        ("ContId", ("continent", "id")),
        ("abandoned_yn", ("abandoned",)),
        ("HTMLPage2", ("html", "page", "2")),
        ("is", ("is",)),
    ],
)
def test_names_are_split_into_words(name: str, words: tuple[str, ...]) -> None:
    assert split_name(name, ("student", "continent")) == words


def test_a_key_that_is_not_declared_is_inferred(flights: AskSchema) -> None:
    assert flights.foreign_key(ColumnRef("flights", "Airline")) == ForeignKey(
        "flights", "Airline", "airlines", "uid", 0.8
    )
    assert flights.column(ColumnRef("flights", "Airline")).kind is ColumnKind.ID


def test_a_declared_key_is_spelled_as_its_table(flights: AskSchema) -> None:
    declared = flights.foreign_key(ColumnRef("flights", "DestAirport"))
    assert declared == ForeignKey("flights", "DestAirport", "airports", "AirportCode")


def test_numbers_that_happen_to_equal_keys_are_not_foreign_keys(flights: AskSchema) -> None:
    assert flights.foreign_key(ColumnRef("flights", "FlightNo")) is None


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (make_column("open_year", 1999, 2004), ColumnKind.YEAR),
        (make_column("opened", "2020-01-02", "2021-03-04"), ColumnKind.DATE),
        (make_column("price", "1.5", "null", "3"), ColumnKind.MEASURE),
        (make_column("vip", "Y", "N"), ColumnKind.FLAG),
        (make_column("type_code", "a", "b"), ColumnKind.CODE),
        (make_column("order_id", 1, 2), ColumnKind.ID),
        (make_column("remark", "good", "bad", "so"), ColumnKind.TEXT),
    ],
)
def test_kinds_of_columns_are_derived(column: ColumnContent, kind: ColumnKind) -> None:
    schema = build_schema([make_table("things", column)])
    assert schema.column(ColumnRef("things", column.name)).kind is kind


def test_a_row_is_shown_by_its_name(flights: AskSchema) -> None:
    assert [table.display for table in flights.tables[:2]] == ["Airline", "City"]


def test_joins_take_the_shortest_way(flights: AskSchema) -> None:
    assert find_joins(flights, ["airlines", "airports"]).tables == ("airlines", "flights", "airports")


def test_tables_without_joins_between_them_are_refused(flights: AskSchema) -> None:
    unconnected = build_schema([AIRLINES, make_table("notes", make_column("text", "a"))])
    with pytest.raises(InvalidInput, match="no keys connect the tables airlines, notes"):
        find_joins(unconnected, ["airlines", "notes"])


@pytest.mark.parametrize(
    ("words", "raw", "why"),
    [
        (["jet", "blue"], "Jet Blue", "exact"),
        (["aberdeen"], "Aberdeen ", "exact"),
        (["bostons"], "Boston", "stem"),
    ],
)
def test_values_are_found_by_their_words(words: list[str], raw: str, why: str) -> None:
    (match,) = ValueIndex([AIRLINES, AIRPORTS]).find_exact(words)
    assert (match.value.raw, match.why) == (raw, why)


def test_misspelled_values_are_found(flights: AskSchema) -> None:
    index = ValueIndex([AIRLINES, AIRPORTS])
    assert [match.value.raw for match in index.find_similar(["aberdeem"])] == ["Aberdeen "]
    assert index.find_similar(["aberxxxx"]) == []


def test_adjectives_of_countries_are_found() -> None:
    index = ValueIndex([make_table("countries", make_column("name", "France", "usa", "europe"))])
    matches = {
        word: [match.value.raw for match in index.find_exact([word])] for word in ("french", "european", "american")
    }
    assert matches == {"french": ["France"], "european": ["europe"], "american": ["usa"]}
