"""Hostile data files in every format that can be uploaded: bombs, false sizes, damaged files and tricks."""

import gzip
import io
import json
import random
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import duckdb

_MEGABYTE = 1024 * 1024
# The number of mutations of each valid file in a quick run and in a full one.
QUICK_SEEDS = 1
FULL_SEEDS = 19


class HostileFile(NamedTuple):
    """A file to upload: its name, and a function that writes it to a path."""

    name: str
    write: Callable[[Path], None]


def list_hostile_files(seeds: int = FULL_SEEDS) -> list[HostileFile]:
    """Return all files, with `seeds` random mutations of each valid file."""
    files = [
        *_list_packed_files(),
        *_list_workbooks(),
        *_list_json_files(),
        *_list_text_files(),
        *_list_databases(),
        *_list_other_files(),
    ]
    for seed in range(seeds):
        files += _list_mutated_files(seed)
    return files


def _make_file(name: str, content: bytes) -> HostileFile:
    return HostileFile(name, lambda path: _write(path, content))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _make_lazy_file(name: str, make: Callable[[], bytes]) -> HostileFile:
    """Return a file whose content is made when it is written, because it is large."""
    return HostileFile(name, lambda path: _write(path, make()))


# packed files


def _make_zip(entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _make_large_zip(megabytes: int, name: str = "zeros.csv") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as file:
        for _ in range(megabytes):
            file.write(b"0,1\n" * (_MEGABYTE // 4))
    return buffer.getvalue()


def _make_large_gzip(megabytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b"0,1\n" * (_MEGABYTE // 4)
    return b"".join([*(packer.compress(block) for _ in range(megabytes)), packer.flush()])


def _make_symlink_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("link.csv")
        entry.external_attr = 0o120777 << 16  # the mode of a symbolic link
        archive.writestr(entry, "/etc/passwd")
    return buffer.getvalue()


def _make_zip_with_wrong_size() -> bytes:
    """Return a zip file that claims that its entry has ten bytes."""
    content = bytearray(_make_zip({"a.csv": b"a,b\n" + b"1,2\n" * 100_000}))
    size = struct.pack("<L", 4 + 4 * 100_000)
    return bytes(content.replace(size, struct.pack("<L", 10)))


def _list_packed_files() -> Iterator[HostileFile]:
    yield _make_lazy_file("bomb.zip", lambda: _make_large_zip(600))
    yield _make_lazy_file("bomb.csv.gz", lambda: _make_large_gzip(600))
    yield _make_lazy_file(
        "nested-bomb.zip", lambda: _make_zip({"inner.zip": _make_zip({"inner2.zip": _make_large_zip(300)})})
    )
    yield _make_lazy_file("many-bombs.zip", lambda: _make_zip({f"{n}.csv": bytes(8 * _MEGABYTE) for n in range(12)}))
    yield _make_lazy_file("layers.zip", lambda: _nest_zip(6))
    yield _make_lazy_file(
        "layers.gz", lambda: gzip.compress(gzip.compress(gzip.compress(gzip.compress(b"a,b\n1,2\n"))))
    )
    yield _make_lazy_file("entries.zip", lambda: _make_zip({f"{n}.csv": b"" for n in range(20_000)}))
    yield _make_lazy_file("tables.zip", lambda: _make_zip({f"{n}.csv": b"a,b\n1,2\n" for n in range(1_500)}))
    for name in ("../../../tmp/evil.csv", "/etc/cron.d/evil.csv", "C:\\evil.csv", "..\\..\\evil.csv",
                 "a/" * 300 + "b.csv", "x" * 5000 + ".csv", "e\u202evsc.csv", "\n.csv", "con.csv",
                 "~/.bashrc.csv"):  # fmt: skip
        yield _make_file("path-trick.zip", _make_zip({name: b"a,b\n1,2\n"}))
    yield _make_file("symlink.zip", _make_symlink_zip())
    yield _make_file("lying.zip", _make_zip_with_wrong_size())
    yield _make_file("truncated.zip", _make_zip({"a.csv": b"a,b\n" * 10_000})[:400])
    yield _make_file("encrypted.zip", _set_flag(_make_zip({"a.csv": b"a,b\n1,2\n"}), 1))
    yield _make_file("method.zip", _set_method(_make_zip({"a.csv": b"a,b\n1,2\n"}), 99))
    yield _make_file("empty.zip", b"PK\x05\x06" + bytes(18))
    yield _make_file("folders.zip", _make_zip({"a/": b"", "b/": b""}))
    yield _make_file("truncated.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000)[:-20])
    yield _make_file("header-only.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00")
    yield _make_file("trailing.csv.gz", gzip.compress(b"a,b\n1,2\n") + b"garbage" * 1000)


def _nest_zip(depth: int) -> bytes:
    content = b"a,b\n1,2\n"
    for _ in range(depth):
        content = _make_zip({"x.zip" if content.startswith(b"PK") else "x.csv": content})
    return content


def _set_flag(content: bytes, flag: int) -> bytes:
    """Set a flag of the first entry of a zip file, in both of its headers."""
    changed = bytearray(content)
    changed[6] |= flag
    changed[changed.index(b"PK\x01\x02") + 8] |= flag
    return bytes(changed)


def _set_method(content: bytes, method: int) -> bytes:
    """Set the compression method of the first entry of a zip file, in both of its headers."""
    changed = bytearray(content)
    changed[8] = method
    changed[changed.index(b"PK\x01\x02") + 10] = method
    return bytes(changed)


# workbooks

_SHEET_START = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
_ROW = '<row r="{0}"><c r="A{0}" t="s"><v>0</v></c><c r="B{0}"><v>{0}</v></c></row>'
_LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
    + "]>"
)


def make_workbook(sheet: str, strings: str | None = None, parts: dict[str, bytes] | None = None) -> bytes:
    """Return an Excel file with one sheet of the given XML."""
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" '
        'Target="worksheets/sheet1.xml"/></Relationships>'
    )
    workbook = (
        '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.'
        'openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="S" sheetId="1" r:id="rId1"/>'
        "</sheets></workbook>"
    )
    shared = strings if strings is not None else "<sst><si><t>name</t></si><si><t>other</t></si></sst>"
    return _make_zip(
        {
            "xl/workbook.xml": workbook.encode(),
            "xl/_rels/workbook.xml.rels": relations.encode(),
            "xl/worksheets/sheet1.xml": sheet.encode("utf-8", "surrogatepass"),
            "xl/sharedStrings.xml": shared.encode(),
            **(parts or {}),
        }
    )


def make_sheet(rows: str, after: str = "") -> str:
    return f"{_SHEET_START}{rows}</sheetData>{after}</worksheet>"


def _list_workbooks() -> Iterator[HostileFile]:
    plain = make_sheet("".join(_ROW.format(number) for number in range(1, 5)))
    yield _make_file("laughs-strings.xlsx", make_workbook(plain, _LAUGHS + "<sst><si><t>&j;</t></si></sst>"))
    yield _make_file("laughs-sheet.xlsx", make_workbook(_LAUGHS + plain))
    external = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    yield _make_file("external-entity.xlsx", make_workbook(plain, external + "<sst><si><t>&e;</t></si></sst>"))
    yield _make_file("doctype.xlsx", make_workbook('<!DOCTYPE x SYSTEM "http://127.0.0.1/x.dtd">' + plain))
    deep = "<a>" * 100_000 + "</a>" * 100_000
    yield _make_file("deep.xlsx", make_workbook(f"<worksheet>{deep}</worksheet>"))
    yield _make_file("far-row.xlsx", make_workbook(make_sheet(_ROW.format(1) + _ROW.format(1048576))))
    yield _make_file("far-column.xlsx", make_workbook(make_sheet('<row r="1"><c r="XFD1"><v>1</v></c></row>' * 500)))
    yield _make_file("wild-column.xlsx", make_workbook(make_sheet('<row r="1"><c r="ZZZ1"><v>1</v></c></row>')))
    yield _make_file("bad-reference.xlsx", make_workbook(make_sheet('<row r="-1"><c r="1A"><v>1</v></c></row>')))
    yield _make_file(
        "huge-number.xlsx", make_workbook(make_sheet('<row r="1"><c r="A1" s="99"><v>1e999</v></c></row>' * 3))
    )
    yield _make_file(
        "bad-string.xlsx", make_workbook(make_sheet('<row r="1"><c r="A1" t="s"><v>99999</v></c></row>' * 3))
    )
    yield _make_lazy_file("many-rows.xlsx", lambda: make_workbook(make_sheet(_ROW.format(7) * 600_000)))
    yield _make_lazy_file("long-cell.xlsx", lambda: make_workbook(_make_long_cell(60)))
    yield _make_lazy_file(
        "many-strings.xlsx", lambda: make_workbook(plain, "<sst>" + "<si><t>x</t></si>" * 3_000_000 + "</sst>")
    )
    yield _make_lazy_file(
        "long-string.xlsx", lambda: make_workbook(plain, f"<sst><si><t>{'x' * 100 * _MEGABYTE}</t></si></sst>")
    )
    merged = '<mergeCell ref="A1:XFD1048576"/>'
    yield _make_file(
        "merged.xlsx", make_workbook(make_sheet(_ROW.format(1) * 3, f"<mergeCells>{merged * 50}</mergeCells>"))
    )
    areas = "".join(f'<mergeCell ref="A{n}:XFD{n + 4000}"/>' for n in range(1, 30_000))
    yield _make_file(
        "many-merged.xlsx", make_workbook(make_sheet(_ROW.format(1) * 3, f"<mergeCells>{areas}</mergeCells>"))
    )
    yield _make_file("cut.xlsx", make_workbook(plain[:200]))
    yield _make_file("no-sheet.xlsx", _make_zip({"xl/workbook.xml": b"<workbook/>"}))
    relation = (
        b'<Relationships><Relationship Id="rId1" Type="x/worksheet" Target="../../../etc/passwd"/></Relationships>'
    )
    yield _make_file("relation.xlsx", make_workbook(plain, parts={"xl/_rels/workbook.xml.rels": relation}))
    attributes = " ".join(f'a{n}="x"' for n in range(50_000))
    yield _make_file("attributes.xlsx", make_workbook(f"<worksheet {attributes}></worksheet>"))
    yield _make_lazy_file(
        "long-attribute.xlsx", lambda: make_workbook(f'<worksheet a="{"x" * 80 * _MEGABYTE}"></worksheet>')
    )
    yield _make_file("utf7.xlsx", make_workbook('<?xml version="1.0" encoding="utf-7"?>' + plain))
    formats = "<styleSheet>" + '<numFmt numFmtId="164" formatCode="' + "y" * 100_000 + '"/>' + "</styleSheet>"
    yield _make_file("formats.xlsx", make_workbook(plain, parts={"xl/styles.xml": formats.encode()}))


def _make_long_cell(megabytes: int) -> str:
    text = "x" * megabytes * _MEGABYTE
    return make_sheet(f'<row r="1"><c r="A1" t="inlineStr"><is><t>{text}</t></is></c></row>')


# JSON


def _repeat(part: bytes, count: int) -> bytes:
    return part * count


def _nest(opening: bytes, inner: bytes, closing: bytes, depth: int) -> bytes:
    return opening * depth + inner + closing * depth


def _nest_row(depth: int) -> bytes:
    return b'{"a":1}\n{"a":' + _nest(b"[", b"", b"]", depth) + b"}\n"


def _list_json_files() -> Iterator[HostileFile]:
    for size in (100, 10_000, 2_000_000):
        yield _make_lazy_file("deep-list.json", partial(_repeat, b"[", size))
        yield _make_lazy_file("deep-object.json", partial(_nest, b'{"a":', b"1", b"}", size))
        yield _make_lazy_file("deep-row.jsonl", partial(_nest_row, size))
    yield _make_lazy_file("strings-with-brackets.json", lambda: json.dumps([{"a": "[" * 1000}] * 100).encode())
    yield _make_lazy_file("long-text.json", lambda: b'[{"a":"' + b"x" * 100 * _MEGABYTE + b'"}]')
    yield _make_lazy_file("open-text.json", lambda: b'[{"a":"' + b"x" * 50 * _MEGABYTE)
    yield _make_lazy_file("long-number.json", lambda: b'[{"a":' + b"9" * 5 * _MEGABYTE + b"}]")
    yield _make_lazy_file("many-keys.json", lambda: json.dumps([{f"k{n}": n for n in range(100_000)}]).encode())
    yield _make_lazy_file("other-keys.jsonl", lambda: b"".join(b'{"k%d":1}\n' % n for n in range(50_000)))
    yield _make_lazy_file("one-object.json", lambda: json.dumps({f"k{n}": {"v": n} for n in range(200_000)}).encode())
    yield _make_lazy_file("long-key.json", lambda: b'[{"' + b"k" * 3 * _MEGABYTE + b'":1}]')
    yield _make_lazy_file("many-tables.json", lambda: json.dumps({f"t{n}": [{"a": 1}] for n in range(3_000)}).encode())
    for number, text in enumerate(
        (b"[]", b"{}", b"[1,2,3]", b"[[1],[2]]", b"null", b'"text"', b"[{}]", b"[null]", b'[{"a":NaN}]', b"[{]",
         b'[{"a":1e400}]', b'[{"a":"\\u0000"}]', b'[{"a":"\\ud800"}]', b'{"a":1}{"a":2}', b'[{"a":1},"b",{"c":[]}]',
         b'[{"a":1,"a":2}]', b"\xef\xbb\xbf[{\"a\":1}]", b'[{"a":1},]', b"[" + b"\x00" * 1000, b'{"":{"":{"":1}}}',
         b'[{"x\\"; DROP TABLE t; --":1}]', b'[{"a":{"b":{"c":{"d":{"e":{"f":1}}}}}}]')
    ):  # fmt: skip
        yield _make_file(f"odd-{number}.json", text)


# text


def _list_text_files() -> Iterator[HostileFile]:
    yield HostileFile("nul-gigabyte.csv", lambda path: _write_sparse(path, 1024))
    yield HostileFile("long-line.csv", lambda path: _write_repeated(path, b"a" * _MEGABYTE, 1024))
    yield _make_lazy_file("open-quote.csv", lambda: b'a,b\n1,"' + b"x,y\n" * 10_000_000)
    yield _make_lazy_file("long-header.csv", lambda: b"x" * 6 * _MEGABYTE + b",b\n1,2\n")
    yield _make_lazy_file(
        "many-columns.csv", lambda: b",".join(b"c%d" % n for n in range(100_000)) + b"\n" + b"1," * 99_999 + b"1\n"
    )
    yield _make_lazy_file("wide-rows.csv", lambda: b"a,b\n" + (b"1," * 50_000 + b"\n") * 50)
    yield _make_lazy_file("uneven.csv", lambda: _make_uneven_rows(200_000))
    yield _make_lazy_file("blank-lines.csv", lambda: b"\n" * 30_000_000)
    yield _make_lazy_file("separators.csv", lambda: b",;|\t" * 2_000_000)
    yield _make_lazy_file("same-names.csv", lambda: b",".join([b"a"] * 900) + b"\n" + b",".join([b"1"] * 900) + b"\n")
    yield _make_lazy_file("random.csv", lambda: random.Random(1).randbytes(5 * _MEGABYTE))
    yield _make_lazy_file("random.bin", lambda: random.Random(2).randbytes(300_000))
    yield _make_lazy_file(
        "distinct.csv", lambda: b"a,b\n" + b"".join(b"%d,text %x\n" % (n, n * 2654435761) for n in range(900_000))
    )
    yield _make_lazy_file("late-text.csv", lambda: b"a,b\n" + b"1,2\n" * 900_000 + b"x,y\n")
    yield _make_lazy_file("quotes.csv", lambda: b'"' * 4_000_000)
    yield _make_lazy_file("many-nul.csv", lambda: b"a,b\n" + b"1\x00,2\x00\n" * 500_000)
    for number, content in enumerate(
        (b"\xef\xbb\xbf", b"\xff\xfe", b"\xff\xfea", b"\xfe\xff\x00a\x00,", b"\xff\xfe\x00\x00", b"\n", b"\r\r\r",
         b",", b"a",
         b"a,b\r1,2\r3,4\r", b"\x00", b"\x00\x00\x00\x00", b"\x1b[2J\x07,\x1b]0;x\x07\n1,2\n",
         b"=cmd|' /C calc'!A0,b\n1,2\n",
         b'"a""b;,";\'--,b\n1,2\n', b'a"); DROP TABLE x; --,b\n1,2\n', b"a,b\n1,99999999999999999999999999\n",
         b"a,b\n0001-01-01,9999-12-31\n", b"a,b\n99999-01-01,31/31/2020\n", b"a,b\n1e999,-1e999\n", b"a,b\nnan,inf\n",
         "a,\u202eb\n1,2\n".encode(), "\u0645\u0631\u062d\u0628\u0627,\U0001f600\n1,2\n".encode(),
         b"a,b\n\xff\xfe,\x80\n" * 50,
         b"a,b\n1,2\n\x1a\x1a\x1a", b"<html><table><tr><td>1</td></tr></table></html>", b"a\tb,c;d|e\n1\t2,3;4|5\n",
         b"x" * 3_000_000 + b"\n" + b"y" * 3_000_000 + b"\n", b"a,b\n" + b'1,"' + b"z" * 9_000_000 + b'"\n')
    ):  # fmt: skip
        yield _make_file(f"odd-{number}.csv", content)
    yield _make_file("\n\x1b[31m../../name.csv".replace("/", "_"), b"a,b\n1,2\n")
    yield _make_file("as-excel.xlsx", b"a,b\n1,2\n")
    yield _make_file("as-parquet.parquet", b"a,b\n1,2\n")
    yield _make_file("as-sqlite.db", b"a,b\n1,2\n")


def _write_sparse(path: Path, megabytes: int) -> None:
    with path.open("wb") as file:
        file.write(b"a,b\n1,2\n")
        file.truncate(megabytes * _MEGABYTE)


def _write_repeated(path: Path, block: bytes, times: int) -> None:
    with path.open("wb") as file:
        for _ in range(times):
            file.write(block)


def _make_uneven_rows(count: int) -> bytes:
    rng = random.Random(3)
    return b"".join(b",".join([b"1"] * rng.randrange(1, 30)) + b"\n" for _ in range(count))


# Parquet and SQLite


def make_parquet() -> bytes:
    path = Path("/tmp") / f"everhold-hostile-{random.SystemRandom().getrandbits(40):x}.parquet"
    try:
        query = "SELECT i AS id, 'name ' || i AS name, i / 3 AS share FROM range(2000) t(i)"
        duckdb.connect().execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        return path.read_bytes()
    finally:
        path.unlink(missing_ok=True)


def make_sqlite(script: str = "") -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        script
        or "CREATE TABLE a(id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE b(id INTEGER, a_id REFERENCES a(id));"
    )
    if not script:
        connection.executemany("INSERT INTO a VALUES (?, ?)", [(n, f"name {n}") for n in range(500)])
        connection.executemany("INSERT INTO b VALUES (?, ?)", [(n, n % 500) for n in range(500)])
        connection.commit()
    return connection.serialize()


def _list_databases() -> Iterator[HostileFile]:
    parquet = make_parquet()
    yield _make_file("cut.parquet", parquet[: len(parquet) // 2])
    yield _make_file("magic.parquet", b"PAR1" + b"\xff" * 100 + b"PAR1")
    yield _make_file("footer.parquet", parquet[:-8] + struct.pack("<L", 2**31) + b"PAR1")
    yield _make_file("footer-small.parquet", parquet[:-8] + struct.pack("<L", 3) + b"PAR1")
    yield _make_lazy_file("zeros.parquet", lambda: b"PAR1" + bytes(20 * _MEGABYTE) + b"PAR1")
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"
    for number, script in enumerate(
        (f"CREATE VIEW v AS {endless};", f"CREATE TABLE t(a); INSERT INTO t VALUES (1); CREATE VIEW v AS {endless};",
         "CREATE TABLE t(a, b GENERATED ALWAYS AS (printf('%.*c', 100000000, 'x')));INSERT INTO t VALUES (1);",
         "CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(60000000));", "CREATE VIRTUAL TABLE f USING fts5(a);",
         'CREATE TABLE "x""; DROP TABLE y; --"(a); CREATE TABLE "t"("" , " ", "a""b");', "CREATE TABLE t(a);",
         "CREATE TABLE t(a TEXT); INSERT INTO t VALUES (char(0) || 'x'), (CAST(x'ff' AS TEXT)), (1), (2.5), (x'00');",
         "CREATE TABLE t(a PRIMARY KEY) WITHOUT ROWID; INSERT INTO t VALUES (1);",
         "PRAGMA encoding='UTF-16'; CREATE TABLE t(a);",
         "CREATE TABLE t(" + ",".join(f"c{n}" for n in range(1900)) + ");",
         "CREATE TABLE p(a REFERENCES missing(b)); CREATE TRIGGER r AFTER INSERT ON p BEGIN SELECT 1; END;",
         "PRAGMA writable_schema=ON; CREATE TABLE t(a); UPDATE sqlite_master SET sql='CREATE TABLE t(a, a, a)';",
         "PRAGMA writable_schema=ON; CREATE TABLE t(a); UPDATE sqlite_master SET rootpage=99999;")
    ):  # fmt: skip
        yield _make_lazy_file(f"odd-{number}.sqlite", partial(make_sqlite, script))
    yield _make_file("cut.sqlite", make_sqlite()[:5000])
    yield _make_file("header.sqlite", b"SQLite format 3\x00" + bytes(5000))


def _list_other_files() -> Iterator[HostileFile]:
    for name, content in {
        "empty.csv": b"", "program.csv": b"\x7fELF" + bytes(1000), "picture.csv": b"\x89PNG\r\n\x1a\n" + bytes(1000),
        "document.csv": b"%PDF-1.7\n" + b"x" * 1000, "old.xls": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(5000),
        "archive.7z": b"7z\xbc\xaf\x27\x1c" + bytes(100), "packed.xz": b"\xfd7zXZ\x00" + bytes(100),
        "pickle.pkl": b"\x80\x04\x95" + bytes(200),
    }.items():  # fmt: skip
        yield _make_file(name, content)


# mutations


def _list_mutated_files(seed: int) -> Iterator[HostileFile]:
    """Yield valid files in which some bytes were changed, inserted or deleted."""
    rng = random.Random(seed)
    rows = b"id,name,day,amount\n" + b"".join(
        b"%d,n%d,2023-01-%02d,%d.5\n" % (n, n % 7, 1 + n % 28, n) for n in range(300)
    )
    sheet = make_sheet("".join(_ROW.format(number) for number in range(1, 200)))
    valid = {
        "mutated.csv": rows,
        "mutated.csv.gz": gzip.compress(rows),
        "mutated.zip": _make_zip({"a.csv": rows, "b.csv": rows}),
        "mutated.xlsx": make_workbook(sheet),
        "mutated.json": json.dumps([{"id": n, "name": f"n{n}", "inner": {"a": [n]}} for n in range(200)]).encode(),
        "mutated.jsonl": b"".join(b'{"id":%d,"name":"n%d"}\n' % (n, n) for n in range(200)),
        "mutated.parquet": make_parquet(),
        "mutated.sqlite": make_sqlite(),
    }
    for name, content in valid.items():
        yield _make_file(name, _mutate(content, rng))


def _mutate(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 3, 20, 200))):
        position = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[position] = rng.randrange(256)
            case 1:
                changed[position] ^= 1 << rng.randrange(8)
            case 2:
                changed[position:position] = rng.randbytes(rng.randrange(1, 9))
            case _:
                del changed[position : position + rng.randrange(1, 9)]
    return bytes(changed)
