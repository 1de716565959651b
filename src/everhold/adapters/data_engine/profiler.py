"""Profiles a database in a separate process and checks the output, because a hostile server may control the process."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from everhold.adapters.data_engine.child import CONNECTED, DATABASE_PREFIX
from everhold.adapters.data_engine.engine import describe_database, make_end_error, make_error
from everhold.adapters.data_engine.process import ChildAnswer, QueryProcess
from everhold.errors import EverholdError, QueryFailed, ResultTooLarge
from everhold.ports.data_engine import QueryLimits
from everhold.ports.data_files import ColumnStatistics
from everhold.ports.databases import DatabaseProfile, DatabaseTables, ProfileLimits, TableProfile
from everhold.ports.table_content import Cell, DeclaredKey
from everhold.progress import ReportProgress, StepProgress

_OUTPUT_MEGABYTES: Final = 256


class SandboxedProfiler:
    """Profiles databases, each in a process that is ended at its limits."""

    def profile(self, data: DatabaseTables, limits: ProfileLimits, report: ReportProgress) -> DatabaseProfile:
        query_limits = QueryLimits(
            limits.seconds, limits.megabytes, int(limits.seconds) + 1, result_megabytes=_OUTPUT_MEGABYTES
        )
        request = {
            "sql": None,
            "profile": asdict(limits),
            "data": describe_database(data),
            "limits": asdict(query_limits),
        }
        process = QueryProcess(f"{DATABASE_PREFIX}{data.address.driver}")
        answer = process.run(request, limits.seconds, _OUTPUT_MEGABYTES << 20, _make_line_counter(report))
        return _read_profile(answer, query_limits, str(data.address))


def _make_line_counter(report: ReportProgress) -> Callable[[bytes], None]:
    """Return a function that gets the pieces of the output and reports each table whose line is complete."""
    count = -1  # the first line reports the connection and not a table

    def watch(piece: bytes) -> None:
        nonlocal count
        count += piece.count(b"\n")
        report(StepProgress("reading", max(0, count), None))

    report(StepProgress("connecting", 0, None))
    return watch


def _read_profile(answer: ChildAnswer, limits: QueryLimits, address: str) -> DatabaseProfile:
    """Return the profile that a process has written; raise the error that it reports or by which it ended."""
    lines = answer.output.splitlines()
    if answer.is_too_long:
        raise ResultTooLarge(f"the profile of {address} has more than {limits.result_megabytes} MB")
    try:
        last_document = json.loads(lines[-1]) if lines and not answer.at_deadline else {}
        if "error" in last_document:
            raise make_error(str(last_document["error"]), str(last_document["message"]), limits)
        if not last_document.get("end"):
            is_silent = answer.at_deadline and lines[:1] != [CONNECTED]
            raise make_error("silent", "", limits) if is_silent else make_end_error(answer, limits)
        tables = tuple(_read_table(json.loads(line)["table"]) for line in lines[1:-1])
        notes = tuple(map(str, last_document["notes"]))
        return DatabaseProfile(str(last_document["server"])[:100], tables, notes)
    except EverholdError:  # some are also ValueErrors
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise QueryFailed("the profile's process gave no valid answer", remedy="try again") from error


def _read_table(document: dict[str, Any]) -> TableProfile:
    keys = [(str(column), str(table), str(to)) for column, table, to in document["foreign_keys"]]
    return TableProfile(
        str(document["name"]),
        _require_count(document["row_count"]),
        tuple(_read_column(column) for column in document["columns"]),
        tuple(map(str, document["primary_key"])),
        tuple(DeclaredKey(*key) for key in keys),
        tuple(map(str, document["notes"])),
        bool(document["is_view"]),
    )


def _read_column(document: dict[str, Any]) -> ColumnStatistics:
    return ColumnStatistics(
        str(document["name"]),
        str(document["data_type"]),
        _require_count(document["null_count"]),
        _require_count(document["distinct_count"]),
        _require_cell(document["minimum"]),
        _require_cell(document["maximum"]),
        tuple(float(number) for number in document["quantiles"]),
        tuple((_require_cell(value), _require_count(count)) for value, count in document["top_values"]),
        tuple(map(_require_cell, document["values"])),
    )


def _require_count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("not a count")
    return value


def _require_cell(value: Any) -> Cell:
    if value is not None and type(value) not in (str, int, float):
        raise TypeError("not a cell")
    cell: Cell = value
    return cell
