"""Questions about uploaded data: answers, follow-ups, what is recorded, and what is refused."""

from datetime import date
from pathlib import Path

import pytest

from everhold import AnswerStatus, Everhold, View
from everhold.errors import InvalidInput, NotFound, StatementRefused
from everhold.model import QueryRun
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views.data_deps import make_source_files
from tests.engines import Store, get_records

ORDERS = """order_id,channel,country,amount,ordered_on
1,web,Spain,20,2025-01-10
2,web,France,35,2025-02-11
3,store,Spain,15,2025-02-20
4,web,Spain,30,2024-12-01
"""
TOTAL = "What is the total amount in 2025?"


@pytest.fixture
def engine(store: Store, tmp_path: Path) -> Everhold:
    (tmp_path / "orders.csv").write_text(ORDERS)
    return store.open(blobs=str(tmp_path / "blobs"))


@pytest.fixture
def shop(engine: Everhold, tmp_path: Path) -> View:
    shop = engine.scope(project="shop")
    shop.upload(str(tmp_path / "orders.csv"))
    return shop


def test_a_question_is_answered_with_its_rows_and_its_statement(shop: View) -> None:
    answer = shop.ask("number of orders per channel")
    assert sorted(answer.table.rows) == [(1, "store"), (3, "web")]
    assert "GROUP BY" in answer.sql
    assert answer.specification is not None
    assert "channel" in answer.restatement
    assert 0 < answer.confidence <= 1


def test_a_column_is_asked_for_by_what_a_user_calls_it(shop: View) -> None:
    assert shop.ask("total yield in 2025").status == AnswerStatus.CANNOT
    shop.update_description("orders", "yield", field="amount")
    answer = shop.ask("total yield in 2025")
    assert answer.table.rows == ((70,),)
    assert answer.status == AnswerStatus.ANSWERED


def test_a_fragment_changes_the_question_before(shop: View) -> None:
    assert shop.ask(TOTAL).table.rows == ((70,),)
    assert shop.ask("and in 2024?", after=TOTAL).table.rows == ((30,),)


def test_a_session_keeps_the_conversation(engine: Everhold, shop: View) -> None:
    chat = engine.scope(project="shop", user="ana", session="s1")
    assert chat.ask(TOTAL).table.rows == ((70,),)
    answer = chat.ask("and in 2024?")
    assert answer.table.rows == ((30,),)
    messages = chat.messages(oldest_first=True).messages
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[2].text == "and in 2024?"
    assert messages[3].text == answer.sentence
    queries = get_records(engine).scan(QueryRun, "default")
    assert {query.id for query in queries} >= {messages[3].references[0]["id"]}
    run = chat.get_run(messages[3].references[1]["id"])
    assert (run.status, run.task) == ("succeeded", "and in 2024?")
    assert run.steps()[0].proposal.arguments == {"sql": answer.sql}


def test_every_answer_is_a_query_run(engine: Everhold, shop: View) -> None:
    answer = shop.ask(TOTAL)
    (query,) = get_records(engine).scan(QueryRun, "default")
    assert (query.question, query.sql, query.status, query.row_count) == (TOTAL, answer.sql, "answered", 1)
    assert (query.project_id, query.session_id) == ("shop", None)
    assert query.confidence == pytest.approx(answer.confidence)


def test_other_projects_do_not_see_the_table(engine: Everhold, shop: View) -> None:
    with pytest.raises(NotFound, match="this scope has no tables"):
        engine.scope(project="other").ask(TOTAL)
    with pytest.raises(NotFound):
        engine.scope(organization="acme", project="shop").sql("SELECT * FROM orders")


def test_a_word_that_names_nothing_is_not_guessed(engine: Everhold, shop: View) -> None:
    answer = shop.ask("purple elephants")
    assert (answer.status, answer.sql, answer.table.rows, answer.chart) == ("cannot", "", (), None)
    assert [problem.text for problem in answer.not_understood] == ["purple", "elephants"]
    assert "'purple' and 'elephants' are not columns, tables or values here" in answer.sentence
    (query,) = get_records(engine).scan(QueryRun, "default")
    assert (query.status, query.sql, query.row_count) == ("cannot", None, None)
    assert query.metadata["not_understood"][0]["text"] == "purple"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("What is the churn of orders?", "'churn' is not a column, table or value here"),
        ("How many orders are from 'Atlantis'?", "'Atlantis' is not a value"),
    ],
)
def test_words_that_are_not_understood_are_named(shop: View, question: str, message: str) -> None:
    answer = shop.ask(question)
    assert answer.status == "cannot"
    assert message in answer.sentence


@pytest.fixture
def sales(engine: Everhold, tmp_path: Path) -> View:
    """A scope with a table that has two prices."""
    (tmp_path / "sales.csv").write_text("sale_id,day,net_price,gross_price\n1,2025-01-02,10,12\n2,2024-03-04,20,24\n")
    view = engine.scope(project="sales", session="s2", user="ana")
    view.upload(str(tmp_path / "sales.csv"))
    return view


def test_readings_that_differ_are_offered(engine: Everhold, sales: View) -> None:
    answer = sales.ask("What is the total price?")
    assert answer.status == "clarify"
    assert answer.clarification == "Does 'price' mean sales.net_price or sales.gross_price?"
    assert [choice.number for choice in answer.choices] == [1, 2]
    assert answer.table.rows == ((30,),)
    chosen = sales.ask("What is the total price?", choice=2)
    assert (chosen.status, chosen.table.rows) == ("answered with assumptions", ((36,),))
    assert chosen.sql == answer.choices[1].sql


def test_a_follow_up_continues_from_the_choice(engine: Everhold, sales: View) -> None:
    sales.ask("What is the total price?")
    chosen = sales.ask("What is the total price?", choice=2)
    assert sales.ask("and in 2025?").table.rows == ((12,),)
    without_session = engine.scope(project="sales")
    assert without_session.ask("and in 2025?", after=chosen.earlier).table.rows == ((12,),)
    queries = get_records(engine).scan(QueryRun, "default", order="created_at")
    assert [query.status for query in queries][:2] == ["clarify", "answered with assumptions"]
    assert [len(query.metadata.get("choices", ())) for query in queries][:2] == [2, 0]
    assert queries[1].metadata["choice"] == 2
    messages = sales.messages(oldest_first=True).messages
    assert "2. the total gross price" in messages[1].text
    assert messages[2].text.endswith("(choice 2)")


def test_a_choice_that_was_not_offered_is_refused(sales: View) -> None:
    with pytest.raises(InvalidInput, match="there is no choice 3"):
        sales.ask("What is the total price?", choice=3)


def test_a_refusal_is_part_of_the_conversation(sales: View) -> None:
    answer = sales.ask("purple elephants")
    messages = sales.messages(oldest_first=True).messages
    assert [message.text for message in messages] == ["purple elephants", answer.sentence]
    assert sales.get_run(messages[1].references[1]["id"]).status == "failed"


def test_periods_are_counted_from_a_day(shop: View) -> None:
    assert shop.ask("How many orders last year?", today=date(2025, 6, 1)).table.rows == ((1,),)


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE orders", "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM customers", "SELECT 1; SELECT 2"],
)
def test_only_queries_of_tables_in_the_scope_run(shop: View, statement: str) -> None:
    with pytest.raises(StatementRefused):
        shop.sql(statement)
    assert shop.sql("SELECT count(*) FROM orders").rows == ((4,),)


def test_values_with_spaces_around_them_are_found(engine: Everhold, tmp_path: Path) -> None:
    (tmp_path / "airports.csv").write_text("code,city\n APG,Aberdeen \nAHD ,Ardmore\n")
    (tmp_path / "flights.csv").write_text("number,airport_code\n1, APG\n2,APG\n3,AHD\n")
    view = engine.scope(project="air")
    view.upload(str(tmp_path / "airports.csv"), str(tmp_path / "flights.csv"))
    assert view.ask("how many flights have airport code APG?").table.rows[0][0] == 2
    assert view.ask("how many flights are in Aberdeen?").table.rows[0][0] == 2  # joins two spellings of the code
    notes = view.describe("airports").table.metadata["notes"]
    assert notes == ["spaces around values of 'code', 'city' were removed"]


def test_a_source_without_its_file_can_be_uploaded_again(shop: View, tmp_path: Path) -> None:
    [source] = shop.sources()
    make_source_files(shop._parts.settings, shop._parts.records).delete(source.organization_id, [source.id])
    missing = "the file with the rows of table 'orders' is missing; store the file again with upload"
    with pytest.raises(NotFound, match=missing):
        shop.ask(TOTAL)
    with pytest.raises(NotFound, match=missing):
        shop.sql("SELECT * FROM orders")
    (tmp_path / "customers.csv").write_text("name\nZoe\n")
    shop.upload(str(tmp_path / "customers.csv"))
    assert shop.ask("how many customers are there?").table.rows == ((1,),)
    [file] = shop.upload(str(tmp_path / "orders.csv"))
    assert file.is_new
    assert shop.ask(TOTAL).table.rows == ((70,),)


def test_a_bundle_brings_tables_without_their_files(engine: Everhold, shop: View, tmp_path: Path) -> None:
    engine.export(tmp_path / "bundle.jsonl")
    with Everhold.open(tmp_path / "copy.db", embedder=FakeEmbedder()) as copy:
        copy.load(tmp_path / "bundle.jsonl")
        view = copy.scope(project="shop")
        with pytest.raises(NotFound, match="is missing; store the file again"):
            view.ask(TOTAL)
        view.upload(str(tmp_path / "orders.csv"))
        assert view.ask(TOTAL).table.rows == ((70,),)
