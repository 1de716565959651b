"""Choose the place where a question is answered: the uploaded files, or one connected database."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everhold.ask.guard import find_read_tables
from everhold.ask.language.tokens import split_words
from everhold.ask.outcome import NotUnderstood
from everhold.ask.problems import find_owners, find_problems, list_content_words
from everhold.ask.reading import QuestionReader, Readings
from everhold.ask.sources.cache import ScopeTables
from everhold.ask.sources.deps import DataDeps
from everhold.errors import Argument, InvalidInput, QueryFailed, Remedy, StatementRefused, Verb
from everhold.model import Connection
from everhold.ports.data_engine import CheckedStatement, DataEngine, QueryResult

FILES_DIALECT = "duckdb"
_ABOUT_AS_LIKELY = 0.1  # two places whose confidences differ by less are about as likely


@dataclass(frozen=True)
class DataPlace:
    """Tables that can be queried together: those of a connection, or without one those of all uploaded files."""

    tables: ScopeTables
    connection: Connection | None = None

    @property
    def dialect(self) -> str:
        return FILES_DIALECT if self.connection is None else str(self.connection.options["dialect"])

    @property
    def name(self) -> str:
        return "the uploaded files" if self.connection is None else f"the connection {self.connection.name!r}"


@dataclass(frozen=True)
class PlaceReadings:
    """The readings of a question with the tables of one place, and the reader that made them."""

    place: DataPlace
    reader: QuestionReader
    readings: Readings


def split_places(scope_tables: ScopeTables) -> list[DataPlace]:
    """Return the places of a scope's tables: files first, then connections by name."""
    connections = sorted(scope_tables.connections.values(), key=lambda connection: (connection.name, connection.id))
    places = [DataPlace(_narrow(scope_tables, connection), connection) for connection in (None, *connections)]
    return [place for place in places if place.tables.tables]


def _narrow(scope_tables: ScopeTables, connection: Connection | None) -> ScopeTables:
    connection_id = None if connection is None else connection.id
    tables = tuple(table for table in scope_tables.tables if table.connection_id == connection_id)
    return replace(scope_tables, tables=tables, fields={table.id: scope_tables.fields[table.id] for table in tables})


def narrow_places(places: Sequence[DataPlace], connection: Connection) -> list[DataPlace]:
    """Return only the place of one connection, if it is among the places."""
    return [place for place in places if place.connection is not None and place.connection.id == connection.id]


def choose_readings(question: str, candidates: Sequence[PlaceReadings]) -> PlaceReadings:
    """Return the readings of the place that the question is most likely about.

    If another place could answer the question about as well, an assumption that says so is added to the readings.
    """
    if len(candidates) == 1:
        return candidates[0]
    ranked = sorted(candidates, key=lambda candidate: _rate(question, candidate, candidates), reverse=True)
    best, second = ranked[0], ranked[1]
    best_can_answer, best_confidence = _rate(question, best, candidates)
    second_can_answer, second_confidence = _rate(question, second, candidates)
    can_both_answer = best_can_answer and second_can_answer
    if not can_both_answer or best_confidence - second_confidence >= _ABOUT_AS_LIKELY:
        return best
    note = f"asked of {best.place.name}; {second.place.name} could answer it too"
    with_note = [replace(reading, assumptions=(*reading.assumptions, note)) for reading in best.readings.readings]
    return replace(best, readings=replace(best.readings, readings=tuple(with_note)))


def _rate(question: str, candidate: PlaceReadings, candidates: Sequence[PlaceReadings]) -> tuple[bool, float]:
    """Return whether a place can answer the question, and the confidence of its best reading."""
    best = candidate.readings.best
    problems = find_problems(candidate.reader.schema, candidate.reader.values, question, candidate.readings)
    is_answered = not problems and not _list_elsewhere(question, candidate, candidates)
    return is_answered, 0.0 if best is None else best.confidence


def explain_problems(
    question: str, problems: Sequence[NotUnderstood], place: DataPlace, candidates: Sequence[PlaceReadings]
) -> list[NotUnderstood]:
    """Return the problems of a question in a place. Words that only another place knows become problems that say so."""
    chosen = next((candidate for candidate in candidates if candidate.place is place), None)
    if chosen is None or len(candidates) == 1:
        return list(problems)
    elsewhere = _list_elsewhere(question, chosen, candidates)
    named = {problem.text for problem in elsewhere}
    return [*elsewhere, *(problem for problem in problems if problem.text not in named)]


def _list_elsewhere(question: str, chosen: PlaceReadings, candidates: Sequence[PlaceReadings]) -> list[NotUnderstood]:
    """Return a problem for each word that the chosen place does not know but another place does."""
    best = chosen.readings.best
    explained = {word for phrase in (best.bindings if best else ()) for word in split_words(phrase)}
    others = [candidate for candidate in candidates if candidate.place is not chosen.place]
    problems = []
    for word in dict.fromkeys(list_content_words(question)):
        if explained.isdisjoint(split_words(word)) and not _knows(chosen.reader, word):
            owner = next((other for other in others if _knows(other.reader, word)), None)
            if owner is not None:
                reason = (
                    f"is in {owner.place.name}, and the rest in {chosen.place.name}; a question runs in one database"
                )
                problems.append(NotUnderstood(word, reason))
    return problems


def _knows(reader: QuestionReader, text: str) -> bool:
    words = split_words(text)
    return bool(words) and (bool(reader.values.find_exact(words)) or all(find_owners(reader.schema, w) for w in words))


def choose_place(sql: str, places: Sequence[DataPlace]) -> DataPlace:
    """Return the place that has all tables of a statement.

    Raise InvalidInput if several places have all of them, and StatementRefused if the tables are spread over several
    places. If no place has any of them, the first place is returned; its guard then says which table is missing.
    """
    if len(places) == 1:
        return places[0]
    read_names = [(place, _find_tables(sql, place)) for place in places]
    complete = [place for place, names in read_names if names and names <= _list_names(place)]
    if len(complete) == 1:
        return complete[0]
    if complete:
        place_names = " and ".join(place.name for place in complete[:3])
        raise InvalidInput(
            f"{place_names} have these tables",
            remedy=Remedy("name a connection with {}", Argument("connection", "NAME")),
        )
    partial = [place for place, names in read_names if names & _list_names(place)]
    if len(partial) > 1:
        first, second = partial[:2]
        raise StatementRefused(
            f"the statement reads tables of {first.name} and of {second.name}",
            remedy="a statement runs in one database; upload what is to be joined",
        )
    return partial[0] if partial else places[0]


def _find_tables(sql: str, place: DataPlace) -> frozenset[str]:
    try:
        names = find_read_tables(sql, place.dialect)
    except StatementRefused:
        return frozenset()
    return frozenset(name.lower() for name in names)


def _list_names(place: DataPlace) -> frozenset[str]:
    return frozenset(table.table_name.lower() for table in place.tables.tables)


def query_connection(
    deps: DataDeps, engine: DataEngine, connection: Connection, statement: CheckedStatement
) -> QueryResult:
    """Run a checked statement on a connected database."""
    try:
        return engine.run(deps.open_database(connection), statement)
    except QueryFailed as error:
        remedy = Remedy("if its tables have changed, read them again with {}", Verb("refresh_connection"))
        raise QueryFailed(f"the connection {connection.name!r}: {error.fact}", remedy=remedy) from error
