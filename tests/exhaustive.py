"""List the tests that run only in `make contract`, each with the reason.

`make test` runs every test on every store in at least one variant. Variants that only repeat the same check on more
tables, operations or combinations take long, so only `make contract` runs them; it sets CONTRACT_STORES=all and
CONTRACT_TIMES.
"""

import os
import re
from pathlib import Path

import pytest

IS_EXHAUSTIVE = os.environ.get("CONTRACT_STORES") == "all"
# The factor by which random tests run longer; `make contract` sets 100.
TIMES = int(os.environ.get("CONTRACT_TIMES", "1"))


def choose_size(short: int, full: int) -> int:
    """Return how often a test repeats a check: `short` times in `make test`, `full` times in `make contract`."""
    return full if IS_EXHAUSTIVE else short


_PER_TABLE = (
    "test_restoring_reverses_exactly_one_deletion|test_hiding_a_row_hides_the_rows_that_belong_to_it|"
    "test_the_target_of_a_reference_must_exist|test_purging_a_target_deletes_or_detaches_the_rows_that_refer_to_it|"
    "test_values_out_of_bounds_are_refused"
)
_DELETIONS = "test_restoring_reverses_exactly_one_deletion|test_hiding_a_row_hides_the_rows_that_belong_to_it"
_ROUND_TRIPS = "test_the_marks_of_deletion_round_trip|test_absent_values_stay_absent"
_UNIQUE_RULES = (
    "test_a_unique_value_is_taken_once|test_rows_that_differ_in_one_column_break_no_unique_rule|"
    "test_a_deleted_row_frees_its_unique_values|test_another_organization_may_have_the_same_unique_value"
)
_SHARED_SQL = (
    "test_restoring_reverses_exactly_one_deletion|test_hiding_a_row_hides_the_rows_that_belong_to_it|"
    "test_values_out_of_bounds_are_refused"
)
_FEW_TABLES = "organizations|users|sessions|memories|chunks|action_proposals"
_TABLES_OF_EVERY_KIND = f"{_FEW_TABLES}|agent_states|connections|memory_access_logs|outbox|projection_states|snapshots"
# Unique rules with a condition, without a condition, with absent values, over several columns, and on generated keys.
_RULES_OF_EVERY_KIND = r"users\.email|agent_states|memories\.(hash|own_key)|cycles|memory_access_logs|outbox"

# Patterns of the names of tests that only `make contract` runs, each with the reason.
LEFT_TO_CONTRACT = {
    rf"({_PER_TABLE})\[(duckdb|dynamodb|plain_file)-(?!({_FEW_TABLES})[.\]])": (
        "`schema/planning.py` keeps these rules on all three; the store in memory is held to it for every table."
    ),
    rf"({_DELETIONS})\[(duckdb|dynamodb)-(?!(users|memories)\])": (
        "Each reads every table, which takes long on these stores."
    ),
    rf"({_UNIQUE_RULES})\[(duckdb|dynamodb|plain_file)-(?!({_RULES_OF_EVERY_KIND})[.\]])": (
        "`schema/planning.py` keeps these rules on all three; the store in memory is held to it for every rule."
    ),
    rf"({_ROUND_TRIPS})\[(duckdb|dynamodb|plain_file)-(?!({_FEW_TABLES})[.\]])": (
        "`test_every_field_of_every_entity_round_trips` puts rows of every kind on every store."
    ),
    rf"test_every_field_of_every_entity_round_trips\[(dynamodb|plain_file)-(?!({_TABLES_OF_EVERY_KIND})\])": (
        "They write a value by its kind, not by its table; stores with columns are held to it for every table."
    ),
    r"test_every_comparison_works_on_every_kind_of_field\[(dynamodb|plain_file)-(?!(=|<)-|>=-(text|inside json))": (
        "`schema/conditions.py` compares for these stores; the store in memory is held to it for every comparison."
    ),
    r"test_pages_lose_and_repeat_nothing\[(duckdb|dynamodb|plain_file)-descending-(?!None|created_at)|"
    r"test_pages_lose_and_repeat_nothing\[dynamodb-ascending-(importance|revision|pinned|id)": (
        "DuckDB runs the statements of SQLite, and `schema/plain_records.py` orders the rows of the others."
    ),
    rf"({_SHARED_SQL})\[postgres-(?!({_FEW_TABLES})[.\]])": (
        "SQLite and PostgreSQL run the same statements of `schema/statements.py`; SQLite runs them for every table."
    ),
    r"test_encrypting_records\.py::.*\[(sqlite|in_memory-(?!memories|messages|agents|connections|outbox)\w+[.\]])": (
        "Encryption is the same above every store and for every table; these five have columns of every kind."
    ),
    r"test_a_backup_is_restored_into_another_kind_of_store\[dynamodb\]": (
        "Rows are written by commits alike on every store; a backup of DynamoDB is made and restored in every run."
    ),
    r"test_one_commit_writes_5000_rows\[dynamodb\]": "It takes long on DynamoDB's server for tests.",
    r"test_get_takes_more_ids_than_a_statement_may\[dynamodb\]": (
        "DynamoDB has no statements; `tests/adapters/dynamodb` reads more keys than fit into one batch."
    ),
    r"test_untrusted_bundles\.py::.*\[dynamodb": (
        "`exchange/` decides what is imported, the same on every store; the four other stores run each of these tests."
    ),
    r"contract/test_engine\.py::.*\[("
    r"sqlite_(native_redis|portable_\w+|chroma_redis)|postgres_(native_in_process|portable_\w+|chroma_in_process)|"
    r"duckdb_(portable_redis|chroma_\w+)|dynamodb_(portable_in_process|chroma_\w+))\]": (
        "The combinations that are left hold every store, and every pair of a search and a cache. Chroma follows the "
        "change feed of any store alike."
    ),
    r"test_chroma_faults\.py::.*\[(zeroed (data_level0|header|length|index_metadata)|half the vectors)": (
        "`zeroed` damages all of these files."
    ),
    r"test_chroma_faults\.py::TestFolder::test_a_folder_is_rebuilt_after_its_process_is_killed$": (
        "`test_a_process_killed_several_times_is_replaced` kills it the first time, too."
    ),
    r"test_network\.py::.*\[chroma-(reset|lost_answer|delay)": (
        "A connection to Chroma is cut and left half open in every run; PostgreSQL and Redis meet every fault."
    ),
    r"test_a_folder_damaged_while_closed_is_rebuilt\[(zeroed link_lists|gone)": (
        "`zeroed` damages this file as well, and `test_a_folder_damaged_while_open_is_rebuilt` deletes the folder."
    ),
    r"test_chroma_faults\.py::.*(damaged_while_open_is_rebuilt|overwritten_index_files_is_filled_again)"
    r"\[zeroed (link_lists|database)": (
        "`zeroed` damages all index files, and `test_a_folder_damaged_while_closed_is_rebuilt` damages the database."
    ),
    r"test_a_rebuild_that_was_killed_is_completed\[on_server|test_network\.py::.*\[dynamodb-(half_open|delay)": (
        "They wait for a long time; the folder, and PostgreSQL, stand for these."
    ),
    r"test_chroma_vectors\.py::.*\[folder": (
        "The same code asks a server and a folder; `tests/faults` and the engine's contract ask folders."
    ),
    r"flows/test_chroma\.py::test_chroma_gives_the_same_answers_on_every_store\[(in_memory|postgres)": (
        "Chroma follows the change feed of any store alike; SQLite stands for all."
    ),
    r"test_crash\.py::test_killed_writers_lose_nothing_with_chroma_and_redis\[(postgres|duckdb|dynamodb)": (
        "Chroma and Redis are the same beside every store; SQLite stands for all."
    ),
    r"contract/test_(agents|agent_files|blocks|tools|runs|workspaces|windows|data|conversations|conversation_tables|"
    r"episodes)\.py::.*\[duckdb": (
        "These use the store by the contract of records, which DuckDB is held to. It runs the statements of SQLite."
    ),
    r"contract/test_(agents|agent_files|blocks|conversation_tables|tools|runs|windows)\.py::.*\[dynamodb": (
        "They commit few rows at once. What commits many (conversations, workspaces, data) is tested on DynamoDB."
    ),
    r"flows/test_(asking|uploads|table_cache)\.py::.*\[(in_memory|postgres)": (
        "Uploaded data are read and asked outside of the store, which only keeps rows about them."
    ),
    r"test_crash\.py::test_a_vector_written_before_its_record_is_caught\[postgres|"
    r"test_episodes_crash\.py::(test_rollups_without_their_episodes_are_caught|"
    r"test_a_killed_build_is_finished\[postgres)": (
        "SQLite shows in every run that planted bugs are caught, and that a killed build of episodes is finished."
    ),
    r"test_nothing_of_the_user_is_left_in_any_table\[(in_memory|postgres|duckdb|dynamodb)-plain": (
        "The encrypted variant erases the same rows, and the keys. SQLite runs both."
    ),
    r"flows/test_(adding|aging|consolidation|encryption|events|ids|key_rotation|maintenance_runs|own_vectors|ownership)"
    r"\.py::.*\[duckdb": "These, too, use the store by the contract of records. DuckDB runs the statements of SQLite.",
    r"flows/test_(adding|aging|consolidation|events|own_vectors)\.py::.*\[dynamodb": (
        "They commit few rows at once; erasure, encryption, undone runs and backups commit many on DynamoDB."
    ),
    r"test_same_everywhere\.py::test_(images_and_candidates_give_the_same_hits\[in_memory|"
    r"rows_of_other_tenants_do_not_change_scores\[postgres)": (
        "`test_every_store_gives_the_same_hits` compares the scores of all stores."
    ),
    r"test_a_cached_graph_that_changed_is_built_again\[cut off": "A file that was cut off has another digest, too.",
}

# The files of the tests that this run leaves out.
LEFT_OUT_FILES = pytest.StashKey[set[Path]]()

_LEFT_OUT = re.compile("|".join(f"(?:{pattern})" for pattern in LEFT_TO_CONTRACT))


def is_left_out(test_name: str) -> bool:
    """Return whether this run leaves a test to `make contract`."""
    return not IS_EXHAUSTIVE and _LEFT_OUT.search(test_name) is not None
