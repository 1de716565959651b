"""The addresses of databases: what a URL says, what is shown of it, and which hosts are allowed."""

from ipaddress import ip_address

import pytest

from everhold.adapters.data_engine.hosts import is_allowed
from everhold.ask.connections.address import has_secret, parse_address
from everhold.errors import InvalidInput

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    ("url", "driver", "parts", "shown"),
    [
        (
            f"postgresql://reader:{SECRET}@db.example.com:5433/shop?sslmode=require",
            "postgres",
            ("db.example.com", 5433, "reader", "shop"),
            "postgresql://reader@db.example.com:5433/shop",
        ),
        (f"postgres://r:{SECRET}@/shop?host=/run/pg", "postgres", ("/run/pg", None, "r", "shop"), "postgres://r@/shop"),
        (
            f"mysql://re%40der:{SECRET}%2F@[::1]/sh%20op",
            "mysql",
            ("::1", None, "re@der", "sh op"),
            "mysql://re%40der@::1/sh%20op",
        ),
        ("mariadb://r@h/shop", "mysql", ("h", None, "r", "shop"), "mariadb://r@h/shop"),
        ("sqlite:///a/b.db", "sqlite", ("", None, "", "a/b.db"), "sqlite:///a/b.db"),
        ("duckdb:////a/b.duckdb", "duckdb", ("", None, "", "/a/b.duckdb"), "duckdb:////a/b.duckdb"),
    ],
)
def test_urls_are_parsed(url: str, driver: str, parts: tuple[object, ...], shown: str) -> None:
    address = parse_address(url)
    assert (address.driver, str(address)) == (driver, shown)
    assert (address.host, address.port, address.user, address.database) == parts
    assert has_secret(address) == (SECRET in url)
    assert SECRET not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "db.example.com",
        "host=db password=hunter2secret",
        "oracle://r:hunter2secret@h/x",
        "postgresql://h/shop",
        "postgresql://r:hunter2secret@h",
        "postgresql://r:hunter2secret@h1,h2/shop",
        "postgresql://r:hunter2secret@h:port/shop",
        "postgresql://r:hunter2secret@/shop",
        "postgresql://r@h/shop?hostaddr=127.0.0.1",
        "postgresql://r@h/shop?host=other",
        "postgresql://r@h/shop?password=hunter2secret",
        "postgresql://r@h/shop?options=-crole%3Dx",
        "postgresql://r@h/shop?service=x",
        "postgresql://r@h/shop?sslkey=/etc/key",
        "mysql://r@h/shop?local_infile=1",
        "mysql://r@h/shop?ssl=no",
        "mysql://r@[h/shop",
        "sqlite://shop.db",
        "sqlite:///",
        "sqlite:///a.db?mode=rw",
        "duckdb:///a\x00b",
        "mssql+pymssql://r@h/shop",
    ],
)
def test_malformed_urls_are_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_address(url)
    assert SECRET not in f"{caught.value!s} {caught.value.value}"
    assert caught.value.remedy


def test_drivers_of_sqlalchemy_are_allowed_by_name() -> None:
    address = parse_address(f"mssql+pymssql://r:{SECRET}@h/shop", ["mssql+pymssql"])
    assert (address.driver, address.dialect, str(address)) == ("sqlalchemy", "tsql", "mssql+pymssql://r@h/shop")
    assert has_secret(parse_address("bigquery://h/x?credentials_path=a", ["bigquery"]))


@pytest.mark.parametrize(
    ("host", "address", "allowed", "expected"),
    [
        ("example.com", "93.184.216.34", ["public"], True),
        ("example.com", "93.184.216.34", ["localhost"], False),
        ("example.com", "93.184.216.34", ["Example.com."], True),
        ("example.com", "127.0.0.1", ["public"], False),
        ("db", "10.1.2.3", ["public"], False),
        ("db", "10.1.2.3", ["10.0.0.0/8"], True),
        ("db", "10.1.2.3", ["192.168.0.0/16", "db"], True),
        ("x", "169.254.169.254", ["public"], False),
        ("x", "0.0.0.0", ["public"], False),
        ("x", "100.64.0.1", ["public"], False),
        ("x", "224.0.0.1", ["public"], False),
        ("x", "::1", ["public"], False),
        ("x", "::1", ["localhost"], True),
        ("x", "::ffff:127.0.0.1", ["public"], False),
        ("x", "::ffff:127.0.0.1", ["localhost"], True),
        ("x", "64:ff9b::7f00:1", ["public"], False),
        ("x", "2002:7f00:1::", ["public"], False),
        ("x", "fe80::1", ["public"], False),
        ("x", "fd00::1", ["fd00::/8"], True),
        ("x", "2606:4700::1", ["public"], True),
        ("x", "93.184.216.34", [], False),
    ],
)
def test_private_hosts_are_allowed_only_if_listed(host: str, address: str, allowed: list[str], expected: bool) -> None:
    assert is_allowed(host, ip_address(address), allowed) == expected


ADBC = ["adbc"]


def test_drivers_of_adbc_are_written_like_built_in_connections() -> None:
    file = parse_address("adbc+sqlite:////data/shop.sqlite", ADBC)
    assert (file.driver, file.dialect, file.database, file.is_file) == ("adbc", "sqlite", "/data/shop.sqlite", True)
    server = parse_address(f"adbc+postgresql://r:{SECRET}@h:5433/shop?sslmode=require", ["adbc+postgresql"])
    assert (server.driver, server.dialect, server.host, server.port) == ("adbc", "postgres", "h", 5433)
    assert (str(server), has_secret(server)) == ("adbc+postgresql://r@h:5433/shop", True)
    other = parse_address(f"adbc+trino://r:{SECRET}@h/shop", ADBC)
    assert (other.driver, other.dialect, str(other)) == ("adbc", "trino", "adbc+trino://r@h/shop")


@pytest.mark.parametrize(
    "url",
    [
        "adbc+sqlite://x",
        "adbc+sqlite:///a?mode=rw",
        "adbc+postgresql://r@h/x?options=-crole%3Dx",
        "adbc+postgresql://h/x",
    ],
)
def test_parameters_that_lead_to_another_server_are_refused_for_adbc(url: str) -> None:
    with pytest.raises(InvalidInput):
        parse_address(url, ADBC)
