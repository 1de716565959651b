"""Paths that no file of a workspace may have, for example names that some file system reads as another name."""

from collections.abc import Iterator

_PORTS = [f"{kind}{number}" for kind in ("COM", "LPT") for number in range(10)]
_DEVICES = ("CON", "PRN", "AUX", "NUL", "CLOCK$", "CONIN$", "CONOUT$", *_PORTS)
_CONTROLS = [*range(1, 32), 0x7F, 0x85, 0xA0, 0xAD, 0x200B, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202E,
             0x2060, 0x2066, 0x2069, 0xFEFF, 0xE000, 0xFFF9, 0xE0001, 0x3000]  # fmt: skip


def list_hostile_paths() -> list[str]:
    return list(dict.fromkeys(_make_paths()))


def _make_paths() -> Iterator[str]:
    yield from ("", "/", ".", "..", "./a", "a/.", "a/..", "../a", "a/../b", "a/../../b", "a//b", "a/", "//a", "/a")
    yield from ("/etc/passwd", "../../../../etc/passwd", "a/b/../../../x", "....//....//x", "..\\..\\x", "a\\b", "\\a")
    yield from (
        "C:",
        "C:a",
        "C:\\a",
        "c:/windows/system32",
        "\\\\server\\share\\x",
        "\\\\?\\C:\\x",
        "//server/share",
        "file:a",
    )
    yield from ("a:stream", "a.txt::$DATA", "a:b/c", "~/../x/", "%2e%2e/../x", "a/%00/../b", "..%c0%af../")
    yield from ("a\x00", "a\x00.txt", "\x00", "a/b\x00/c", "../\x00")
    yield from (
        "a.",
        "a ",
        " a",
        "a. ",
        "a/b.",
        "a/ b",
        "...",
        "....",
        ". ",
        ".. ",
        " ..",
        "a/.. /b",
        "a/. ./b ",
        "x/...",
    )
    # Forms that compatibility normalization turns into dots, slashes, colons and devices.
    yield from (
        "\uff0e\uff0e",
        "\uff0e\uff0e/a",
        "\u2025",
        "\u2025/a",
        "\u2024\u2024",
        "\u2024",
        "\u2026",
        "a\u2026",
        "\ufe52\ufe52",
    )
    yield from (
        "a\uff0fb",
        "\uff0fetc",
        "a\uff3cb",
        "c\uff1a",
        "a\ufe55b",
        "\u2100",
        "a\u2101",
        "\u2105",
        "\u2106",
        "\ufe68a",
        "a\uff1ab",
    )
    yield from (
        "\uff23\uff2f\uff2e",
        "\uff2e\uff35\uff2c.txt",
        "com\u00b9",
        "COM\u00b2.txt",
        "lpt\u00b3",
        "\u24d2\u24de\u24dd",
        "\u24c3ul",
    )
    yield from (f"a{chr(code)}b" for code in _CONTROLS)
    yield from (chr(code) for code in _CONTROLS)
    for device in _DEVICES:
        yield from (
            device,
            device.lower(),
            f"{device}.txt",
            f"a/{device}",
            f"{device.title()}.tar.gz",
            f"{device} .txt",
        )
    yield from ("a" * 256, "ä" * 128, "a/" * 40 + "b", "/".join(["abcdefghij"] * 100), "x" * 5_000, "😀" * 64)
    yield from ("\ud800", "a\udcff", "a/\udfff/b")
