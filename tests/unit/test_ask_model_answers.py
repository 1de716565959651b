"""Reading statements from the answers of language models: recorded forms of answers, and hostile answers."""

import pytest

from everhold.ask.language_model.answers import MAX_ANSWER, MAX_STATEMENT, read_answer
from everhold.ask.language_model.frame_documents import read_frame
from everhold.ask.sql import write_sql
from everhold.errors import InvalidInput
from tests.unit.ask_shop import make_shop, open_shop

QUERY = "SELECT name FROM customers"
# How small and large models answer the same prompt.
FORMS = {
    "bare": QUERY,
    "semicolon": f"{QUERY};",
    "fenced": f"```sql\n{QUERY}\n```",
    "fenced without a language": f"```\n{QUERY}\n```",
    "fenced in capitals": f"```SQL\n{QUERY};\n```\n",
    "tildes": f"~~~sql\n{QUERY}\n~~~",
    "fence that is not closed": f"Here you go:\n```sql\n{QUERY}",
    "prose before": f"Sure! Here is the query you asked for:\n\n{QUERY}",
    "prose on the same line": f"The answer is: {QUERY}",
    "prose without a colon": f"The answer is {QUERY}",
    "prose that mentions a SELECT": f"I wrote a SELECT that reads from the table.\n\n{QUERY}",
    "prose after": f"{QUERY}\n\nThis query lists the names.",
    "prose after, without a blank line": f"{QUERY}\nThis query lists the names.",
    "label": f"SQL: {QUERY}",
    "quoted": f"> {QUERY}",
    "backquotes": f"You can use `{QUERY}` for that.",
    "thoughts": f"<think>First, SELECT 1 FROM x? No.</think>\n```sql\n{QUERY}\n```",
    "thoughts without an opening": f"I could say DELETE FROM x.\n</think>\n{QUERY}",
    "thoughts with statements": f"<thinking>\n```sql\nSELECT * FROM wrong\n```\n</thinking>{QUERY}",
    "said twice": f"```sql\n{QUERY}\n```\nThat is:\n```sql\n{QUERY.lower()}\n```",
    "json": f'{{"sql": "{QUERY}"}}',
    "json in a fence": f'```json\n{{"query": "{QUERY};", "note": "done"}}\n```',
    "json in a list": f'[{{"sql": "{QUERY}"}}]',
    "json and prose": f'{{"sql": "{QUERY}"}}\nI hope this helps.',
    "other statements around": f"SET threads = 1; {QUERY}; DROP TABLE customers",
    "comments": f"-- the names\n{QUERY} -- all of them",
    "windows line ends": f"```sql\r\n{QUERY}\r\n```",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_the_statement_is_found(form: str) -> None:
    answer = read_answer(FORMS[form], "duckdb")
    assert answer.problem == ""
    assert answer.sql.casefold().rstrip("; ") == QUERY.casefold()


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "I cannot help with that.", "```sql\n```", "```sql\nDROP TABLE customers\n```", "{}", "[]",
        "{\"sql\": 5}",
        "<think>SELECT a FROM b", "Select the customers that have an order.", "{\"sql\": \"SELECT a FROM b\"",
        "```python\nprint('SELECT a FROM b')\n```", "[" * 5_000, "{\"a\":" * 5_000, "\0", "'" * 100,
    ],
)  # fmt: skip
def test_without_a_statement_there_is_a_problem(text: str) -> None:
    answer = read_answer(text, "duckdb")
    assert (answer.sql, answer.frame, answer.is_none) == ("", None, False)
    assert answer.problem


@pytest.mark.parametrize("text", ["NONE", "none.", "`NONE`", "<think>no table fits</think>\n\nNONE", '"NONE"'])
def test_a_model_may_decline(text: str) -> None:
    assert read_answer(text, "duckdb").is_none


def test_an_answer_with_two_statements_is_not_used() -> None:
    answer = read_answer("SELECT a FROM b; SELECT c FROM d", "duckdb")
    assert answer.sql == ""
    assert answer.problem == "the answer has 2 different statements instead of one"
    assert read_answer("```sql\nSELECT a FROM b\n```\nor\n```sql\nSELECT c FROM d\n```", "duckdb").sql == ""


def test_a_subquery_on_its_own_line_is_not_a_second_statement() -> None:
    sql = "SELECT a FROM b WHERE c IN (\nSELECT c FROM d\n)"
    assert read_answer(f"Here:\n{sql}", "duckdb").sql == sql


def test_a_semicolon_in_a_text_ends_nothing() -> None:
    sql = "SELECT a FROM b WHERE c = 'x; DROP TABLE b'"
    assert read_answer(sql, "duckdb").sql == sql


def test_long_answers_are_cut_and_long_statements_refused() -> None:
    assert read_answer("x " * MAX_ANSWER + QUERY, "duckdb").sql == ""
    long_statement = f"SELECT name FROM customers WHERE name = '{'x' * MAX_STATEMENT}'"
    assert "more than 4,000 characters" in read_answer(long_statement, "duckdb").problem


def test_an_answer_of_many_statements_is_read_quickly() -> None:
    # Each of these lines may begin a statement; the reader looks at few of them.
    assert read_answer("SELECT a FROM b\n" * 2_500, "duckdb").sql == ""


FRAME = {
    "table": "orders",
    "select": [{"column": "status"}, {"function": "sum", "column": "amount"}],
    "where": [{"column": "Customers.Country", "operator": "=", "value": "France"}],
    "group": ["status"],
    "order": [{"function": "sum", "column": "amount", "descending": True}],
    "limit": 3,
}


def test_a_frame_becomes_sql(tmp_path_factory: pytest.TempPathFactory) -> None:
    schema = open_shop(make_shop(tmp_path_factory.mktemp("shop") / "shop.db")).schema
    frame = read_frame(FRAME, schema)
    assert write_sql(schema, frame).startswith('SELECT "orders"."status", SUM("orders"."amount") FROM "orders" JOIN')
    count = read_frame({"table": "orders", "select": [{"function": "count"}]}, schema)
    assert write_sql(schema, count) == 'SELECT COUNT(*) FROM "orders"'


@pytest.mark.parametrize(
    "change",
    [
        {"table": "secrets"}, {"table": None}, {"table": ["orders"]}, {"select": ["password"]}, {"select": "amount"},
        {"select": [{"function": "pg_read_file", "column": "amount"}]}, {"select": [{"function": "sum"}]},
        {"select": [{"column": "order_date", "grain": "1; DROP TABLE orders"}]}, {"select": [[]]}, {"limit": "1; DROP"},
        {"limit": True}, {"limit": -1}, {"where": [{"column": "status", "operator": "OR 1=1 --", "value": 1}]},
        {"where": [{"column": "status", "operator": "=", "value": {"sql": "SELECT 1"}}]}, {"where": [1]},
        {"where": [{"column": "status", "operator": "between", "value": [1]}]}, {"order": ["amount"] * 21},
        {"where": [{"column": "status", "operator": "=", "value": True}]}, {"group": [None]},
    ],
)  # fmt: skip
def test_a_frame_with_anything_unknown_is_refused(
    change: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    schema = open_shop(make_shop(tmp_path_factory.mktemp("shop") / "shop.db")).schema
    with pytest.raises(InvalidInput):
        read_frame({**FRAME, **change}, schema)
