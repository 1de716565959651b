"""A small shop in a SQLite file: the tables that the tests of asking are about."""

import sqlite3
from datetime import date
from functools import cache
from pathlib import Path

from everhold.adapters.sqlite_files.reader import read_tables
from everhold.ask.profile.build import build_schema
from everhold.ask.reading import QuestionReader
from everhold.ask.values import ValueIndex

TODAY = date(2024, 3, 15)
_SCRIPT = """
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name TEXT, age INTEGER, city TEXT, country TEXT);
CREATE TABLE product_categories (category_id INTEGER PRIMARY KEY, category_name TEXT);
CREATE TABLE products (product_id INTEGER PRIMARY KEY, title TEXT, price REAL, num_in_stock INTEGER,
  category_id INTEGER REFERENCES product_categories(category_id), discontinued_yn INTEGER);
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers(customer_id),
  order_date TEXT, status TEXT, amount REAL);
CREATE TABLE order_items (order_id INTEGER REFERENCES orders(order_id), product_id INTEGER, quantity INTEGER,
  PRIMARY KEY (order_id, product_id));
INSERT INTO customers VALUES (1,'Ann Lee',34,'Paris','France'), (2,'Bob Roy',51,'Berlin','Germany'),
  (3,'Cara Diaz',27,'Lyon','France'), (4,'Dan Ito',45,'Osaka','Japan'), (5,'Eve Kim',27,'Berlin','Germany');
INSERT INTO product_categories VALUES (1,'Books'), (2,'Toys'), (3,'Garden');
INSERT INTO products VALUES (1,'Atlas',30.0,4,1,0), (2,'Novel',12.5,40,1,0), (3,'Robot',55.0,7,2,1),
  (4,'Puzzle',9.0,25,2,0), (5,'Spade',18.0,3,3,0), (6,'Drone',240.0,2,2,0);
INSERT INTO orders VALUES (1,1,'2023-11-02','paid',72.5), (2,1,'2024-01-15','open',9.0),
  (3,2,'2024-01-20','paid',240.0), (4,3,'2024-02-03','paid',12.5), (5,2,'2024-02-28','cancelled',55.0),
  (6,4,'2024-03-01','paid',36.0);
INSERT INTO order_items VALUES (1,1,2), (1,2,1), (2,4,1), (3,6,1), (4,2,1), (5,3,1), (6,5,2);
"""


def make_shop(path: Path) -> Path:
    """Write the shop to a file."""
    connection = sqlite3.connect(path)
    connection.executescript(_SCRIPT)
    connection.close()
    return path


@cache
def open_shop(path: Path) -> QuestionReader:
    """Return a reader of questions about the shop at a path."""
    tables = read_tables(path)
    return QuestionReader(build_schema(tables), ValueIndex(tables))
