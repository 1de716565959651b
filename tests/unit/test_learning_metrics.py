"""Metrics: what a confirmed statement computes becomes a measure that other questions use."""

from pathlib import Path

import pytest

from tests.unit.test_learning_gate import Shop
from tests.unit.ask_shop import make_shop

TURNOVER = "sum(products.price * order_items.quantity)"
JOINED = "FROM order_items JOIN products ON order_items.product_id = products.product_id"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(make_shop(tmp_path / "shop.sqlite"))
