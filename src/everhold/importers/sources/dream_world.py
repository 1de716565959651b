"""Read DreamWorldAgent's SQLite database: scenarios and their simulations."""

from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.source import ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem, report_unread
from everhold.importers.values import describe, load_json
from everhold.ports.foreign_tables import ForeignTables

_JSON_COLUMNS = (
    "initial_state", "actions", "constraints", "evaluation_metrics", "best_action", "causal_analysis",
    "counterfactuals", "metadata",
)  # fmt: skip


def detect(sample: Sample) -> float:
    has_scenarios = sample.has_tables(scenarios="scenario_id name")
    return 0.95 if has_scenarios or sample.has_tables(simulations="simulation_id best_action") else 0.0


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    with import_input.files.open_database() as tables:
        names: dict[str, str] = {}
        for row in _read_table(tables, "scenarios", "scenario_id"):
            names[str(row["scenario_id"])] = str(row.get("name") or "")
            yield _describe_scenario(row)
        for row in _read_table(tables, "simulations", "simulation_id"):
            yield _describe_simulation(row, names.get(str(row.get("scenario_id"))))
            # The agent wrote 0 as the scenario of every simulation, so a scenario is kept only if it exists.
            if str(row.get("scenario_id")) in names:
                values = {
                    "source": f"simulation-{row['simulation_id']}",
                    "target": f"scenario-{row['scenario_id']}",
                    "type": "derived_from",
                }
                yield RowDraft("relationship", "simulations", f"simulation {row['simulation_id']}", values)
        if "simulation_states" in tables.columns and (count := tables.count_rows("simulation_states")):
            yield LeftOut("simulation_states", "steps of a search, which state nothing", count)
        yield from report_unread(tables, "scenarios", "simulations", "simulation_states")


def _read_table(tables: ForeignTables, table: str, order: str) -> Iterator[Mapping[str, Any]]:
    return tables.read_rows(table, (order,)) if table in tables.columns else iter(())


def _read_content(row: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: load_json(value) if name in _JSON_COLUMNS else value for name, value in row.items()}
    return {name: value for name, value in values.items() if value is not None}


def _describe_scenario(row: Mapping[str, Any]) -> RowDraft:
    descriptions = [row.get("name"), row.get("description")]
    values = {
        "id": f"scenario-{row['scenario_id']}",
        "kind": "plan",
        "text": ": ".join(str(part) for part in descriptions if part),
        "content": _read_content(row),
        "tags": ["scenario", *([str(row["type"])] if row.get("type") else [])],
        "created_at": row.get("created_at"),
        "source_agent": "DreamWorldAgent",
    }
    return RowDraft("memory", "scenarios", f"scenario {row['scenario_id']}", values)


def _describe_simulation(row: Mapping[str, Any], scenario: str | None) -> RowDraft:
    """Return a memory from a simulation, with a sentence about its result as the text."""
    best_action = describe(load_json(row.get("best_action")) or "")
    value, uncertainty = row.get("expected_value"), row.get("uncertainty")
    text = f"Simulation of {scenario or 'a scenario'}: the best action is {best_action or 'unknown'}"
    text += f", with expected value {value}" if value is not None else ""
    text += f" and uncertainty {uncertainty}" if uncertainty is not None else ""
    values = {
        "id": f"simulation-{row['simulation_id']}",
        "kind": "result",
        "text": text,
        "content": _read_content(row),
        "tags": ["simulation"],
        "created_at": row.get("end_time") or row.get("start_time"),
        "source_agent": "DreamWorldAgent",
    }
    return RowDraft("memory", "simulations", f"simulation {row['simulation_id']}", values)


SOURCE = ImportSource("dream-world", "DreamWorldAgent's dream_world.db", detect, read)
