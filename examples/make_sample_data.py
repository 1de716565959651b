"""Write three small data sets to try questions on: a shop, a flight schedule and a music store.

    python examples/make_sample_data.py sample-data

The shop is a folder of CSV files, the flight schedule an Excel workbook and the music store a SQLite database. The seed
is fixed: every run writes the same rows. `examples/sample_questions.json` has questions about them with the expected
results. Nothing in the data is real.
"""

import argparse
import csv
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from random import Random
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

SEED = 20260115
FIRST_DAY = date(2024, 1, 1)
DAYS = 731  # two years, one of them a leap year

Cell = str | int | float | date | datetime | None


def split_words(text: str) -> list[str]:
    return text.split()


@dataclass(frozen=True)
class SampleTable:
    """The header and the rows of a table."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]


# The shop sells outdoor equipment.
STORES = (
    ("Harbour Street", "Lisbon", "Portugal", date(2015, 3, 2)),
    ("Ribeira", "Porto", "Portugal", date(2018, 9, 14)),
    ("Gran Via", "Madrid", "Spain", date(2012, 5, 7)),
    ("Born", "Barcelona", "Spain", date(2016, 11, 21)),
    ("Marais", "Paris", "France", date(2019, 4, 1)),
    ("Altstadt", "Munich", "Germany", date(2021, 6, 18)),
)
PRODUCTS = {
    "Tents": (("Ridge 2", 219), ("Ridge 4", 329), ("Dome Light", 179), ("Basecamp 6", 549), ("Tarp Solo", 89)),
    "Sleeping bags": (("Polar -10", 189), ("Summer Down", 149), ("Trail 5", 99), ("Kids Cocoon", 59)),
    "Backpacks": (("Summit 65", 199), ("Day Hiker 22", 79), ("Trail Runner 12", 69), ("Carrier Plus", 239)),
    "Cooking": (("Gas Stove Mini", 45), ("Titan Pot", 55), ("Spork Set", 12), ("Water Filter", 39), ("Mug", 14)),
    "Lighting": (("Headlamp 400", 49), ("Lantern", 35), ("String Lights", 25), ("Headlamp 800", 89)),
    "Footwear": (("Alpine Boot", 209), ("Trail Shoe", 129), ("Camp Sandal", 49), ("Wool Socks", 16)),
}
FIRST_NAMES = split_words(
    "Ana Bruno Clara Diego Elena Filipe Greta Hugo Ines Jonas Katrin Luis Marta Nuno Olivia Pablo Quentin Rita Sofia "
    "Tomas Ursula Vera Wim Xenia Yara Zoe"
)
LAST_NAMES = split_words(
    "Almeida Bauer Costa Dubois Esteves Ferreira Garcia Hoffmann Iglesias Jansen Klein Lopez Martin Neves Oliveira "
    "Pereira Ramos Santos Torres Vidal Weber Ximenes Zimmermann"
)
CITIES = {
    "Portugal": ("Lisbon", "Porto", "Braga", "Faro"),
    "Spain": ("Madrid", "Barcelona", "Valencia", "Seville"),
    "France": ("Paris", "Lyon", "Nantes"),
    "Germany": ("Munich", "Berlin", "Hamburg"),
    "Netherlands": ("Amsterdam", "Utrecht"),
}
REFUND_REASONS = ("damaged", "wrong size", "late delivery", "changed mind")
# Tents sell in early summer, sleeping bags and lights in winter: one weight per month.
SEASON = (0.7, 0.7, 0.9, 1.1, 1.4, 1.6, 1.5, 1.2, 0.9, 0.8, 1.1, 1.5)

# The flight schedule.
AIRLINES = (
    ("AZ1", "Atlantic Air", "Portugal"),
    ("IB2", "Iberia Norte", "Spain"),
    ("LX3", "Alpine Wings", "Switzerland"),
    ("NJ4", "Nordjet", "Denmark"),
    ("SK5", "Sky Budget", "Ireland"),
)
AIRPORTS = (
    ("LIS", "Humberto Delgado", "Lisbon", "Portugal", 38.77, -9.13),
    ("OPO", "Francisco Sa Carneiro", "Porto", "Portugal", 41.24, -8.68),
    ("MAD", "Barajas", "Madrid", "Spain", 40.49, -3.57),
    ("BCN", "El Prat", "Barcelona", "Spain", 41.30, 2.08),
    ("CDG", "Charles de Gaulle", "Paris", "France", 49.01, 2.55),
    ("MUC", "Franz Josef Strauss", "Munich", "Germany", 48.35, 11.79),
    ("ZRH", "Kloten", "Zurich", "Switzerland", 47.46, 8.55),
    ("CPH", "Kastrup", "Copenhagen", "Denmark", 55.62, 12.65),
    ("DUB", "Dublin Airport", "Dublin", "Ireland", 53.43, -6.25),
)
SEATS = {"A320": 174, "A321": 212, "B737": 180, "E190": 100}
FLEETS = {
    "AZ1": ("A320", "A321"),
    "IB2": ("A320", "E190"),
    "LX3": ("A320", "E190"),
    "NJ4": ("B737", "A320"),
    "SK5": ("B737",),
}
FLIGHT_COLUMNS = (
    "flight_id", "flight_number", "airline_code", "origin", "destination", "departure",
    "aircraft", "distance_km", "seats", "passengers", "delay_minutes", "cancelled",
)  # fmt: skip

# The music store.
GENRES = ("Rock", "Jazz", "Classical", "Electronic", "Folk", "Hip Hop", "Pop")
ARTIST_WORDS = split_words(
    "Velvet Paper Silver Northern Crooked Golden Quiet Electric Broken Midnight Ivory Hollow Scarlet Wandering"
)
ARTIST_NOUNS = split_words(
    "Lanterns Foxes Harbour Rivers Quartet Machine Orchard Strangers Parade Sisters Radio Tigers"
)
TITLE_WORDS = split_words(
    "Rain Glass Summer Letters Ocean Shadow Garden Signal Winter Mirror Train Fire Echo Morning Stone Paper Moon Road"
)
ARTIST_COUNTRIES = ("Portugal", "United Kingdom", "United States", "Brazil", "Germany", "Japan", "Iceland")


def make_shop() -> dict[str, SampleTable]:
    """Return the tables of the shop."""
    rng = Random(SEED)
    products = [
        (number, name, category, float(price), round(price * rng.uniform(0.45, 0.7), 2))
        for number, (category, name, price) in enumerate(
            ((category, name, price) for category, items in PRODUCTS.items() for name, price in items), start=1
        )
    ]
    customers = [_make_customer(rng, number) for number in range(1, 301)]
    orders, lines, refunds = _make_orders(rng, customers, products)
    return {
        "stores": SampleTable(
            ("store_id", "name", "city", "country", "opened_on"),
            [(number, *store) for number, store in enumerate(STORES, start=1)],
        ),
        "customers": SampleTable(("customer_id", "name", "country", "city", "segment", "signed_up_on"), customers),
        "products": SampleTable(("product_id", "name", "category", "list_price", "cost"), products),
        "orders": SampleTable(("order_id", "customer_id", "store_id", "ordered_on", "channel", "status"), orders),
        "order_lines": SampleTable(("line_id", "order_id", "product_id", "quantity", "unit_price", "revenue"), lines),
        "refunds": SampleTable(("refund_id", "order_id", "refunded_on", "amount", "reason"), refunds),
    }


def _make_customer(rng: Random, number: int) -> tuple[Cell, ...]:
    country = rng.choices(list(CITIES), weights=(30, 28, 18, 16, 8))[0]
    name = f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"
    segment = rng.choices(("consumer", "business", "school"), weights=(75, 18, 7))[0]
    signed_up = date(2022, 6, 1) + timedelta(days=rng.randrange(1200))
    return (number, name, country, rng.choice(CITIES[country]), segment, signed_up)


def _make_orders(
    rng: Random, customers: Sequence[tuple[Cell, ...]], products: Sequence[tuple[Cell, ...]]
) -> tuple[list[tuple[Cell, ...]], list[tuple[Cell, ...]], list[tuple[Cell, ...]]]:
    orders: list[tuple[Cell, ...]] = []
    lines: list[tuple[Cell, ...]] = []
    refunds: list[tuple[Cell, ...]] = []
    # A tenth of the customers has never ordered, and a few order often.
    buyers = customers[: len(customers) * 9 // 10]
    weights = [1 / (1 + index % 40) for index in range(len(buyers))]
    for day in _list_order_days(rng):
        order_id = len(orders) + 1
        channel = rng.choices(("web", "store", "phone"), weights=(58, 36, 6))[0]
        store = rng.choices(range(1, len(STORES) + 1), weights=(5, 3, 6, 4, 3, 2))[0] if channel == "store" else None
        status = rng.choices(("completed", "cancelled", "returned"), weights=(90, 6, 4))[0]
        customer = rng.choices(buyers, weights)[0]
        orders.append((order_id, customer[0], store, day, channel, status))
        paid = 0.0
        for product in rng.sample(products, rng.choices((1, 2, 3, 4), weights=(45, 30, 17, 8))[0]):
            quantity = rng.choices((1, 2, 3, 5), weights=(70, 20, 7, 3))[0]
            price = round(float(str(product[3])) * rng.choice((1, 1, 1, 0.9, 0.8)), 2)
            lines.append((len(lines) + 1, order_id, product[0], quantity, price, round(quantity * price, 2)))
            paid += quantity * price
        if status == "returned" or rng.random() < 0.02:
            amount = round(paid * rng.choice((1, 1, 0.5)), 2)
            refunded = day + timedelta(days=rng.randrange(3, 40))
            reason = rng.choices(REFUND_REASONS, weights=(30, 35, 15, 20))[0]
            refunds.append((len(refunds) + 1, order_id, refunded, amount, reason))
    return orders, lines, refunds


def _list_order_days(rng: Random) -> Iterator[date]:
    """Yield the day of every order in time order; there are more in summer, in December and in the second year."""
    for number in range(DAYS):
        day = FIRST_DAY + timedelta(days=number)
        expected_orders = 2.6 * SEASON[day.month - 1] * (1 + 0.25 * number / DAYS)
        for _ in range(int(expected_orders + rng.random())):
            yield day


def make_flights() -> dict[str, SampleTable]:
    """Return the tables of the flight schedule, of one summer."""
    rng = Random(SEED + 1)
    flights: list[tuple[Cell, ...]] = []
    routes = _list_routes(rng)
    for number in range(92):
        day = date(2025, 6, 1) + timedelta(days=number)
        for route in routes:
            if rng.random() >= 0.25:
                flights.append(_make_flight(rng, route, day, len(flights) + 1))
    return {
        "airlines": SampleTable(("code", "name", "country"), list(AIRLINES)),
        "airports": SampleTable(("code", "name", "city", "country", "latitude", "longitude"), list(AIRPORTS)),
        "flights": SampleTable(FLIGHT_COLUMNS, flights),
    }


def _list_routes(rng: Random) -> list[tuple[str, str, str, str, int, int]]:
    routes = []
    for airline, _, _ in AIRLINES:
        for number in range(5):
            origin, destination = rng.sample(AIRPORTS, 2)
            # A degree is about 111 km, and one of longitude about 80 km at these latitudes.
            north, east = (origin[4] - destination[4]) * 111, (origin[5] - destination[5]) * 80
            distance = round((north**2 + east**2) ** 0.5)
            flight_number = f"{airline[:2]}{100 * (number + 1) + rng.randrange(99)}"
            routes.append((airline, flight_number, origin[0], destination[0], rng.randrange(6, 22), distance))
    return routes


def _make_flight(
    rng: Random, route: tuple[str, str, str, str, int, int], day: date, flight_id: int
) -> tuple[Cell, ...]:
    airline, flight_number, origin, destination, hour, distance = route
    aircraft = rng.choice(FLEETS[airline])
    seats = SEATS[aircraft]
    is_cancelled = rng.random() < (0.05 if airline == "SK5" else 0.02)
    passengers = 0 if is_cancelled else round(seats * min(1.0, rng.gauss(0.82, 0.12)))
    delay = None if is_cancelled else max(0, round(rng.gauss(6 + hour / 2, 18)))
    departure = datetime.combine(day, time(hour, rng.choice((0, 10, 25, 40, 55))))
    return (
        flight_id, flight_number, airline, origin, destination, departure,
        aircraft, distance, seats, passengers, delay, int(is_cancelled),
    )  # fmt: skip


def make_music() -> dict[str, SampleTable]:
    """Return the tables of the music store."""
    rng = Random(SEED + 5)
    names = rng.sample([f"{word} {noun}" for word in ARTIST_WORDS for noun in ARTIST_NOUNS], 40)
    artists = [
        (number, f"The {name}" if rng.random() < 0.4 else name, rng.choice(ARTIST_COUNTRIES))
        for number, name in enumerate(names, start=1)
    ]
    albums: list[tuple[Cell, ...]] = []
    tracks: list[tuple[Cell, ...]] = []
    for artist in artists[:37]:  # three have no album yet
        for _ in range(rng.randrange(1, 5)):
            title = " ".join(rng.sample(TITLE_WORDS, 2))
            # One album alone is the newest.
            year = 2025 if len(albums) == 60 else rng.randrange(1995, 2025)
            albums.append((len(albums) + 1, title, artist[0], year))
            genre = rng.randrange(1, len(GENRES) + 1)
            for _ in range(rng.randrange(6, 13)):
                name = " ".join(rng.sample(TITLE_WORDS, rng.choice((1, 2, 3))))
                seconds, price = round(rng.gauss(225, 55)), rng.choice((0.99, 0.99, 1.29))
                tracks.append((len(tracks) + 1, name, len(albums), genre, max(60, seconds), price))
    listeners, purchases = _make_purchases(rng, tracks)
    return {
        "artists": SampleTable(("artist_id", "name", "country"), artists),
        "albums": SampleTable(("album_id", "title", "artist_id", "release_year"), albums),
        "genres": SampleTable(("genre_id", "name"), list(enumerate(GENRES, start=1))),
        "tracks": SampleTable(("track_id", "name", "album_id", "genre_id", "seconds", "price"), tracks),
        "listeners": SampleTable(("listener_id", "first_name", "last_name", "country", "joined_on"), listeners),
        "purchases": SampleTable(("purchase_id", "listener_id", "track_id", "purchased_on", "price"), purchases),
    }


def _make_purchases(
    rng: Random, tracks: Sequence[tuple[Cell, ...]]
) -> tuple[list[tuple[Cell, ...]], list[tuple[Cell, ...]]]:
    listeners: list[tuple[Cell, ...]] = []
    for number in range(1, 121):
        joined = date(2023, 1, 1) + timedelta(days=rng.randrange(700))
        first, last = rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES)
        listeners.append((number, first, last, rng.choice(ARTIST_COUNTRIES), joined))
    weights = [1 / (1 + (index * 7) % 50) for index in range(len(tracks))]
    purchases: list[tuple[Cell, ...]] = []
    for number in range(1, 3001):
        track = rng.choices(tracks, weights)[0]
        day = FIRST_DAY + timedelta(days=rng.randrange(DAYS))
        purchases.append((number, rng.choice(listeners[:110])[0], track[0], day, track[5]))
    return listeners, purchases


def write_csv_files(folder: Path, tables: Mapping[str, SampleTable]) -> None:
    """Write each table as a CSV file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table.columns)
            writer.writerows(table.rows)


def write_database(path: Path, tables: Mapping[str, SampleTable]) -> None:
    """Write all tables to a SQLite database; the first column of each is its key."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    for name, table in tables.items():
        types = {int: "INTEGER", float: "REAL", date: "DATE"}
        columns = [
            f"{column} {types.get(type(value), 'TEXT')}{'' if index else ' PRIMARY KEY'}"
            for index, (column, value) in enumerate(zip(table.columns, table.rows[0], strict=True))
        ]
        references = [
            f"FOREIGN KEY ({column}) REFERENCES {column.removesuffix('_id')}s ({column})"
            for column in table.columns[1:]
            if f"{column.removesuffix('_id')}s" in tables and column.endswith("_id")
        ]
        connection.execute(f"CREATE TABLE {name} ({', '.join(columns + references)})")
        placeholders = ", ".join("?" * len(table.columns))
        rows = [tuple(str(cell) if isinstance(cell, date) else cell for cell in row) for row in table.rows]
        connection.executemany(f"INSERT INTO {name} VALUES ({placeholders})", rows)
    connection.commit()
    connection.close()


_SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{}</sheetData></worksheet>'
)
_RELATIONS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
# Style 1 shows a number as a date and a time.
_STYLES = (
    '<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    '<fonts count="1"><font/></fonts><fills count="1"><fill/></fills><borders count="1"><border/></borders>'
    '<cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="2"><xf/><xf numFmtId="22" applyNumberFormat="1"/>'
    "</cellXfs></styleSheet>"
)


def write_workbook(path: Path, tables: Mapping[str, SampleTable]) -> None:
    """Write each table as a sheet of an Excel workbook."""
    numbers = dict(enumerate(tables, start=1))
    sheets = "".join(
        f'<sheet name="{name}" sheetId="{number}" r:id="rId{number}"/>' for number, name in numbers.items()
    )
    parts = {
        "[Content_Types].xml": _make_content_types(len(tables)),
        "_rels/.rels": _RELATIONS.format(
            f'<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
        ),
        "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
        f'xmlns:r="{_OFFICE}"><sheets>{sheets}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": _RELATIONS.format(
            "".join(
                f'<Relationship Id="rId{number}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{number}.xml"/>'
                for number in numbers
            )
            + f'<Relationship Id="rId0" Type="{_OFFICE}/styles" Target="styles.xml"/>'
        ),
        "xl/styles.xml": _STYLES,
    }
    for number, name in numbers.items():
        table = tables[name]
        rows = "".join(f"<row>{''.join(map(_format_cell, row))}</row>" for row in [table.columns, *table.rows])
        parts[f"xl/worksheets/sheet{number}.xml"] = _SHEET.format(rows)
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            # Without a fixed time, every run would write another file.
            archive.writestr(ZipInfo(name), f'<?xml version="1.0" encoding="UTF-8"?>{text}', ZIP_DEFLATED)


def _make_content_types(sheets: int) -> str:
    prefix = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    overrides = {"workbook.xml": "sheet.main", "styles.xml": "styles"}
    overrides |= {f"worksheets/sheet{number}.xml": "worksheet" for number in range(1, sheets + 1)}
    return (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        + "".join(
            f'<Override PartName="/xl/{name}" ContentType="{prefix}.{kind}+xml"/>' for name, kind in overrides.items()
        )
        + "</Types>"
    )


def _format_cell(cell: Cell) -> str:
    if cell is None:
        return "<c/>"
    if isinstance(cell, datetime):
        # Excel counts days from the end of 1899.
        days = (cell - datetime.combine(date(1899, 12, 30), time())) / timedelta(days=1)
        return f'<c s="1"><v>{days!r}</v></c>'
    if isinstance(cell, int | float):
        return f"<c><v>{cell!r}</v></c>"
    return f'<c t="inlineStr"><is><t>{escape(str(cell))}</t></is></c>'


def write_all(folder: Path) -> None:
    """Write all three data sets into a folder."""
    write_csv_files(folder / "shop", make_shop())
    write_workbook(folder / "flights.xlsx", make_flights())
    write_database(folder / "music.sqlite", make_music())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the files are written; created if needed")
    folder = parser.parse_args().folder
    write_all(folder)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
