"""A small shop for the tests of connected servers: its tables, and everyday questions with their answers."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from everhold import View

SCRIPT = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, city VARCHAR(40), vip BOOLEAN);
CREATE TABLE products (id INTEGER PRIMARY KEY, title VARCHAR(60), category VARCHAR(30), price NUMERIC(10, 2));
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, ordered_on DATE, status VARCHAR(20),
    FOREIGN KEY (customer_id) REFERENCES customers (id)
);
CREATE TABLE order_items (
    id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, product_id INTEGER NOT NULL, quantity INTEGER,
    amount NUMERIC(10, 2), shipped_at TIMESTAMP NULL,
    FOREIGN KEY (order_id) REFERENCES orders (id), FOREIGN KEY (product_id) REFERENCES products (id)
);
INSERT INTO customers VALUES
    (1, 'Ann Berg', 'Oslo', TRUE), (2, 'Bob Dahl', 'Bergen', FALSE), (3, 'Cho Lee', 'Oslo', FALSE),
    (4, 'Dan O''Hara', NULL, TRUE);
INSERT INTO products VALUES
    (1, 'Tea pot', 'kitchen', 20.50), (2, 'Desk lamp', 'office', 35.00), (3, 'Chair', 'office', 120.00);
INSERT INTO orders VALUES
    (1, 1, '2025-01-10', 'paid'), (2, 2, '2025-02-11', 'open'), (3, 1, '2024-12-01', 'paid'),
    (4, 3, '2025-02-20', 'paid'), (5, 3, '2025-05-02', 'cancelled');
INSERT INTO order_items VALUES
    (1, 1, 1, 2, 41.00, '2025-01-12 10:00:00'), (2, 1, 2, 1, 35.00, NULL), (3, 2, 3, 1, 120.00, '2025-02-15 08:30:00'),
    (4, 3, 1, 1, 20.50, '2024-12-02 09:00:00'), (5, 4, 2, 2, 70.00, '2025-02-21 12:00:00'), (6, 5, 3, 1, 120.00, NULL)
"""
TABLES = tuple(SCRIPT.strip().split(";"))

# Questions, each with the rows of its answer in any order.
QUESTIONS: Sequence[tuple[str, Sequence[tuple[Any, ...]]]] = (
    ("How many customers are there?", [(4,)]),
    ("How many customers live in Oslo?", [(2,)]),
    ("number of orders per status", [(3, "paid"), (1, "open"), (1, "cancelled")]),
    ("What is the total amount shipped in 2025?", [(Decimal("231.00"),)]),
    ("total amount per city", [(Decimal("286.50"), "Oslo"), (Decimal("120.00"), "Bergen")]),
    (
        "orders per month in 2025",
        [(1, date(2025, 1, 1)), (2, date(2025, 2, 1)), (1, date(2025, 5, 1))],
    ),
    ("orders by quarter", [(1, date(2024, 10, 1)), (3, date(2025, 1, 1)), (1, date(2025, 4, 1))]),
    ("orders per year", [(1, date(2024, 1, 1)), (4, date(2025, 1, 1))]),
    ("average price per category", [(Decimal("20.5"), "kitchen"), (Decimal("77.5"), "office")]),
    ("What is the most expensive product?", [("Chair",)]),
    ("Which customers have no orders?", [("Dan O'Hara",)]),
    ("customers with more than one order", [("Ann Berg",), ("Cho Lee",)]),
    ("products above the average price", [("Chair",)]),
    ("How many orders are paid?", [(3,)]),
    ("top 2 customers by total amount", [(Decimal(190), "Cho Lee"), (Decimal(120), "Bob Dahl")]),
    ("share of orders by status", [(0.6, "paid"), (0.2, "open"), (0.2, "cancelled")]),
    ("How many customers are vip?", [(2,)]),
    ("average quantity per product", [(1.5, "Tea pot"), (1.5, "Desk lamp"), (1, "Chair")]),
    ("orders of Dan O'Hara", []),
)


def find_wrong_answers(view: View, step: int = 1) -> list[tuple[str, object, str]]:
    """Ask every `step`-th question. Return those with unexpected rows, with the rows and the statement."""
    wrong_answers = []
    for question, expected in QUESTIONS[::step]:
        answer = view.ask(question)
        if _normalise(answer.table.rows) != _normalise(expected):
            wrong_answers.append((question, answer.table.rows, answer.sql))
    return wrong_answers


def _normalise(rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the rows as sorted texts in which numbers of all types are written in the same way."""
    return sorted(str([_format_cell(cell) for cell in row]) for row in rows)


def _format_cell(cell: object) -> str:
    return f"{float(cell):.4f}" if isinstance(cell, int | float | Decimal) else str(cell)
