"""Verdicts on answers teach: what is learned is used, scoped, revocable, and never used on tables that have changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold import AnswerStatus, Everhold, LearnedItem, View
from everhold.errors import InvalidInput, NotFound, QueryError, StatementRefused
from everhold.model import QueryLesson, QueryPattern, QueryRun
from everhold.schema.operations import Patch
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import Store, get_records

ORDERS = """order_id,channel,country,amount,ordered_on
1,web,Spain,20,2025-01-10
2,web,France,35,2025-02-11
3,store,Spain,15,2025-02-20
4,web,Spain,30,2024-12-01
"""
QUESTION = "how much moolah came from Spain"
RIGHT_SQL = "SELECT sum(amount) FROM orders WHERE country = 'Spain'"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Everhold]:
    with Everhold.open("memory://", blobs=str(tmp_path / "blobs"), embedder=FakeEmbedder()) as engine:
        yield engine


@pytest.fixture
def shop(engine: Everhold, tmp_path: Path) -> View:
    return upload(engine.scope(project="shop"), tmp_path, ORDERS)


def upload(view: View, folder: Path, content: str) -> View:
    (folder / "orders.csv").write_text(content)
    view.upload(str(folder / "orders.csv"))
    return view


def teach(view: View, question: str = QUESTION, sql: str = RIGHT_SQL) -> str:
    query = view.ask(question).query
    view.correct(query, sql=sql)
    return query


def test_a_correction_answers_questions_with_other_values(store: Store, tmp_path: Path) -> None:
    engine = store.open(blobs=str(tmp_path / "blobs"))
    shop = upload(engine.scope(project="shop"), tmp_path, ORDERS)
    teach(shop)
    answer = shop.ask("how much moolah came from France")
    assert answer.table.rows == ((35,),)
    assert answer.restatement == "the total amount of orders in France"
    assert "Spain" not in answer.sql
    run = get_records(engine).get(QueryRun, "default", [answer.query])[answer.query]
    assert run.pattern_id == next(item.id for item in shop.learned() if item.kind == "pattern")
    for item in shop.learned():
        shop.forget_learned(item.id)
    assert shop.learned() == []
    assert shop.ask("how much moolah came from France").table.rows != ((35,),)


def test_learned_says_what_was_learned_and_why(shop: View) -> None:
    query = teach(shop)
    items = {item.kind: item for item in shop.learned()}
    pattern = items["pattern"]
    assert (pattern.text, pattern.status, pattern.origin) == (
        "how much moolah came from <country>", "active", "corrected"
    )  # fmt: skip
    assert (pattern.wins, pattern.losses, pattern.query) == (1, 0, query)
    assert pattern.why == f"answers {QUESTION!r}, breaks none of 1 replayed"
    assert (items["alias"].text, items["alias"].meaning) == ("moolah", "orders.amount")


def test_an_alias_is_used_for_other_questions(shop: View) -> None:
    assert shop.ask("moolah per channel").status == AnswerStatus.CANNOT
    teach(shop)
    answer = shop.ask("moolah per channel")
    assert sorted(answer.table.rows) == [(15, "store"), (85, "web")]
    assert "'moolah' means orders.amount" in answer.assumptions


def test_a_confirmation_counts_as_a_win(shop: View) -> None:
    teach(shop)
    result = shop.confirm(shop.ask("how much moolah came from France").query)
    assert result.query.feedback == "confirmed"
    [pattern] = [item for item in shop.learned() if item.kind == "pattern"]
    assert pattern.wins == 2


def test_an_answer_that_was_only_run_teaches_nothing(shop: View) -> None:
    shop.ask("What is the total amount?")
    shop.sql(RIGHT_SQL)
    assert shop.learned() == []


def test_a_choice_is_remembered(engine: Everhold, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("sale_id,day,net_price,gross_price\n1,2025-01-02,10,12\n2,2024-03-04,20,24\n")
    sales = engine.scope(project="sales")
    sales.upload(str(tmp_path / "sales.csv"))
    answer = sales.ask("What is the total price?")
    assert answer.status == AnswerStatus.CLARIFY
    result = sales.correct(answer.query, choice=2)
    assert {item.origin for item in result.learned} == {"chosen"}
    second_answer = sales.ask("What is the total price?")
    assert (second_answer.table.rows, second_answer.choices) == (((36,),), ())
    with pytest.raises(InvalidInput, match="no choice 3"):
        sales.correct(answer.query, choice=3)


def test_a_rejected_reading_comes_last(shop: View) -> None:
    answer = shop.ask("What is the total amount in 2025?")
    shop.reject(answer.query)
    second_answer = shop.ask("What is the total amount in 2025?")
    assert second_answer.sql != answer.sql or second_answer.confidence < answer.confidence
    similar_answer = shop.ask("What is the total amount in 2024?")
    assert similar_answer.confidence < answer.confidence


def test_a_reading_that_ignores_words_does_not_replace_a_rejected_one(shop: View) -> None:
    question = "amounts of France"
    answer = shop.ask(question)
    assert answer.table.rows == ((35,),)
    shop.reject(answer.query)
    second_answer = shop.ask(question)
    assert second_answer.sql != answer.sql
    assert second_answer.status == AnswerStatus.CANNOT or "France" in second_answer.sql


def test_a_rejected_answer_does_not_come_back(shop: View) -> None:
    question = "How many orders are there?"
    query = shop.ask(question).query
    shop.reject(query)
    second_answer = shop.ask(question)
    assert (second_answer.status, second_answer.table.rows) == (AnswerStatus.CANNOT, ())
    assert second_answer.sentence == "I cannot answer this: the answer that was found was rejected before."
    assert shop.ask("How many orders are from Spain?").table.rows == ((3,),)
    shop.confirm(query)
    assert shop.ask(question).table.rows == ((4,),)


def test_a_verdict_that_is_repeated_counts_once(shop: View) -> None:
    teach(shop)
    query = shop.ask("how much moolah came from France").query
    assert shop.confirm(query).learned
    assert shop.confirm(query).learned == ()
    assert {item.wins for item in shop.learned() if item.kind == "pattern"} == {2}
    for item in shop.learned():
        shop.forget_learned(item.id)
    assert shop.confirm(query).learned, "what was revoked can be taught again"
    shop.reject(query)
    assert shop.reject(query).learned == ()


def test_a_later_confirmation_outranks_a_rejection(shop: View) -> None:
    question = "What is the total amount in 2025?"
    answer = shop.ask(question)
    shop.reject(answer.query)
    shop.correct(shop.ask(question).query, sql=answer.sql)
    second_answer = shop.ask(question)
    assert (second_answer.sql, second_answer.confidence, second_answer.choices) == (answer.sql, 1.0, ())


def test_a_rejection_retires_what_made_the_answer(shop: View) -> None:
    teach(shop)
    shop.reject(shop.ask("how much moolah came from France").query)
    assert {item.status for item in shop.learned() if item.kind == "pattern"} == {"retired"}


def test_only_what_was_learned_can_be_revoked(shop: View) -> None:
    with pytest.raises(NotFound, match="nothing was learned with the id"):
        shop.forget_learned("qpt_none")


def test_nothing_is_learned_across_projects_users_and_tenants(engine: Everhold, shop: View, tmp_path: Path) -> None:
    ana = engine.scope(project="shop", user="ana")
    query = teach(ana)
    others = [
        engine.scope(project="shop", user="bob"),
        shop,
        upload(engine.scope(project="other"), tmp_path, ORDERS),
        upload(engine.scope(organization="acme", project="shop"), tmp_path, ORDERS),
    ]
    assert ana.ask("how much moolah came from France").table.rows == ((35,),)
    for view in others:
        assert view.learned() == []
        assert view.ask("how much moolah came from France").table.rows != ((35,),)
    for view in others[2:]:
        with pytest.raises(NotFound, match="no query"):
            view.confirm(query)


def test_knowledge_of_a_project_helps_all_its_users(engine: Everhold, shop: View) -> None:
    teach(shop)
    assert engine.scope(project="shop", user="bob").ask("how much moolah came from France").table.rows == ((35,),)


HOSTILE_STATEMENTS = (
    "DROP TABLE orders",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT 1; SELECT 2",
    "SELECT * FROM other_tenant",
    "SELECT no_such_column FROM orders",
)


def test_a_hostile_correction_is_refused(shop: View) -> None:
    query = shop.ask(QUESTION).query
    for sql in HOSTILE_STATEMENTS:
        with pytest.raises(StatementRefused):
            shop.correct(query, sql=sql)
    assert shop.learned() == []


def test_a_correction_that_does_not_run_teaches_nothing(shop: View) -> None:
    query = shop.ask(QUESTION).query
    with pytest.raises(QueryError):
        shop.correct(query, sql="SELECT CAST(country AS INTEGER) FROM orders")
    assert shop.learned() == []


def test_wrong_arguments_are_refused(shop: View) -> None:
    query = shop.ask("purple elephants").query
    for judge in (shop.confirm, shop.reject):
        with pytest.raises(InvalidInput, match="this question was not answered"):
            judge(query)
    with pytest.raises(InvalidInput, match="either a statement or a choice"):
        shop.correct(query)
    with pytest.raises(NotFound, match="no query 'qry_none'"):
        shop.reject("qry_none")


def test_only_the_user_who_asked_and_the_project_judge_an_answer(engine: Everhold, shop: View) -> None:
    query = engine.scope(project="shop", user="ana").ask("How many orders are there?").query
    with pytest.raises(NotFound, match="no query"):
        engine.scope(project="shop", user="bob").reject(query)
    assert shop.reject(query).query.feedback == "rejected"


def test_a_stored_statement_passes_the_guard_at_every_use(engine: Everhold, shop: View) -> None:
    teach(shop)
    records = get_records(engine)
    [row] = records.scan(QueryPattern, "default")
    for sql in ("SELECT * FROM read_text('/etc/passwd') WHERE 'Spain' = 'Spain'", "not SQL at all ((("):
        records.commit([Patch(QueryPattern, ("default", row.id), {"sql": sql})])
        answer = shop.ask("how much moolah came from France")
        assert "passwd" not in answer.sql


def test_a_follow_up_changes_a_learned_answer(shop: View) -> None:
    teach(shop)
    answer = shop.ask("how much moolah came from France")
    assert shop.ask("only in 2024", after=answer.earlier).table.rows != answer.table.rows
    assert shop.ask("and from Spain?", after=answer.earlier).table.rows == ((65,),)


def test_a_fragment_teaches_nothing(engine: Everhold, shop: View) -> None:
    chat = engine.scope(project="shop", user="ana", session="s1")
    chat.ask("What is the total amount in 2025?")
    answer = chat.ask("and in 2024?")
    assert answer.table.rows == ((30,),)
    assert chat.confirm(answer.query).learned == ()
    assert chat.learned() == []


SCHEMA_CHANGES = {
    "renamed": (ORDERS.replace("amount", "total"), "quarantined"),
    "dropped": ("order_id,country\n1,Spain\n", "quarantined"),
    "retyped": (ORDERS.replace(",20,", ",twenty,").replace(",35,", ",many,"), "quarantined"),
    "another column": (ORDERS.replace("ordered_on", "ordered_on,note").replace("-10", "-10,x"), "active"),
}


def test_learned_patterns_are_inactive_until_they_run_on_the_changed_schema(shop: View, tmp_path: Path) -> None:
    teach(shop)
    for name, (content, status) in SCHEMA_CHANGES.items():
        upload(shop, tmp_path, content)
        answer = shop.ask("how much moolah came from Spain")
        learned = [item for item in shop.learned() if item.kind == "pattern"]
        assert (name, [item.status for item in learned]) == (name, [status])
        assert (name, answer.table.rows == ((65,),)) == (name, status == "active")
        upload(shop, tmp_path, ORDERS)
        assert shop.ask("how much moolah came from Spain").table.rows == ((65,),)
        assert {item.status for item in shop.learned()} == {"active"}


def test_new_rows_do_not_change_the_schema(shop: View, tmp_path: Path) -> None:
    teach(shop)
    upload(shop, tmp_path, ORDERS + "5,web,Italy,7,2025-03-01\n")
    assert shop.ask("how much moolah came from Italy").table.rows == ((7,),)


def test_learned_patterns_are_exported(engine: Everhold, shop: View, tmp_path: Path) -> None:
    teach(shop)
    engine.export(tmp_path / "all.everhold")
    with Everhold.open("memory://", blobs=str(tmp_path / "others"), embedder=FakeEmbedder()) as copy:
        copy.load(tmp_path / "all.everhold")
        records = get_records(copy)
        assert len(records.scan(QueryPattern, "default")) == 1
        assert [row.phrase for row in records.scan(QueryLesson, "default")] == ["moolah"]
        copied = copy.scope(project="shop")
        upload(copied, tmp_path, ORDERS)
        assert copied.ask("how much moolah came from France").table.rows == ((35,),)


LINES = """order_id,channel,country,price,quantity,ordered_on
1,web,Spain,20,2,2025-01-10
2,web,France,35,1,2025-02-11
3,store,Spain,15,3,2025-02-20
4,web,Spain,30,1,2024-12-01
"""
TURNOVER = "SELECT country, sum(price * quantity) FROM orders GROUP BY country"


@pytest.fixture
def sales(engine: Everhold, tmp_path: Path) -> View:
    return upload(engine.scope(project="sales"), tmp_path, LINES)


def find_metric(view: View) -> LearnedItem | None:
    return next((item for item in view.learned() if item.kind == "metric"), None)


def test_a_metric_is_learned_used_shown_and_revoked(sales: View) -> None:
    teach(sales, "turnover by country", TURNOVER)
    metric = find_metric(sales)
    assert metric is not None
    assert (metric.text, metric.meaning) == ("turnover", "sum(orders.price * orders.quantity)")
    assert metric.why == "answers 'turnover by country', breaks none of 1 replayed"
    answer = sales.ask("turnover per channel in 2024")
    assert answer.table.rows == ((30, "web"),)
    assert [column.title for column in answer.table.columns] == ["turnover", "channel"]
    assert sales.ask("turnover of Spain").table.rows == ((115,),)
    sales.confirm(sales.ask("which country has the highest turnover").query)
    metric = find_metric(sales)
    assert metric is not None
    assert (metric.wins, metric.losses) == (2, 0)
    for item in sales.learned():
        sales.forget_learned(item.id)
    assert sales.ask("turnover of Spain").table.rows != ((115,),)


def test_a_metric_is_defined_by_its_name_and_its_statement(sales: View) -> None:
    query = sales.ask("turnover").query
    sales.correct(query, sql="SELECT sum(price * quantity) FROM orders")
    assert sales.ask("turnover of France").table.rows == ((35,),)


def test_a_metric_is_followed_by_fragments(sales: View) -> None:
    teach(sales, "turnover by country", TURNOVER)
    for question in ("turnover per country", "turnover by country"):
        answer = sales.ask(question)
        second_answer = sales.ask("only in 2025", after=answer.earlier)
        assert {frozenset(row) for row in second_answer.table.rows} == {
            frozenset({35, "France"}),
            frozenset({85, "Spain"}),
        }
        assert [item.kind for item in sales.confirm(second_answer.query).learned] == ["metric"], (
            "a fragment is not a pattern"
        )


def test_a_wrong_metric_is_retired_by_one_rejection(sales: View) -> None:
    teach(sales, "turnover by country", TURNOVER)
    sales.reject(sales.ask("turnover of Spain").query)
    metric = find_metric(sales)
    assert metric is not None
    assert metric.status == "retired"
    assert "quantity" not in sales.ask("turnover of France").sql


def test_a_metric_waits_while_its_columns_are_gone(sales: View, tmp_path: Path) -> None:
    teach(sales, "turnover by country", TURNOVER)
    upload(sales, tmp_path, LINES.replace("quantity", "items"))
    sales.ask("turnover of Spain")
    assert [item.status for item in sales.learned() if item.kind == "metric"] == ["quarantined"]
    upload(sales, tmp_path, LINES)
    assert sales.ask("turnover of Spain").table.rows == ((115,),)


def test_a_stored_formula_passes_the_guard_at_every_use(engine: Everhold, sales: View) -> None:
    teach(sales, "turnover by country", TURNOVER)
    records = get_records(engine)
    [row] = records.scan(QueryLesson, "default")
    formulas = ("(SELECT content FROM read_text('/etc/passwd'))", "length(getenv('HOME'))", "not SQL (((")
    for sql in formulas:
        meaning = {**row.meaning, "formula": {**row.meaning["formula"], "sql": sql, "columns": []}}
        records.commit([Patch(QueryLesson, ("default", row.id), {"meaning": meaning})])
        answer = sales.ask("turnover of Spain")
        assert "passwd" not in answer.sql
        assert "getenv" not in answer.sql.lower()


def test_a_later_confirmation_in_a_conversation_is_learned(engine: Everhold, shop: View) -> None:
    chat = engine.scope(project="shop", user="ana", session="s1")
    chat.ask("number of orders per channel")
    teach(chat)
    assert chat.ask("how much moolah came from France").table.rows == ((35,),)
    fragment = chat.ask("and from Spain?")
    assert fragment.table.rows == ((65,),)
    assert chat.confirm(fragment.query).learned == ()
