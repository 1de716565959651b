"""Read WhatsApp's text export of a chat. The format of its dates depends on the language of the phone."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import PurePath
from typing import Any, NamedTuple

from everhold.errors import InvalidInput
from everhold.importers.files import ForeignFiles
from everhold.importers.source import BadRow, ImportInput, ImportSource, RowDraft, Sample, SourceItem

# "31/12/2023, 21:15 - Ada: …", "[31.12.23, 21:15:33] Ada: …", "12/31/23, 9:15 PM - Ada: …", "2023-12-31, 21:15 - …"
# "31/12/2023 à 21:15 - …", "31.12.2023 klo 21.15 - …", "2023/12/31 下午9:15 - …"
_LINE = re.compile(
    r"\[?(?P<date>\d{1,4}[./-]\d{1,2}[./-]\d{1,4})[, ]+(?:(?:à|klo|às|ore|kl\.?|um|at) )?"
    r"(?P<before>[上下]午|午[前後]|오[전후])? ?(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?"
    r"\s*(?P<half>[AaPp]\.?\s?[Mm]\.?)?\]?(?: [-–])? (?P<rest>.*)"
)
# Direction marks and non-breaking spaces, which newer versions write around times.
_INVISIBLE = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202c\ufeff")) | {ord("\u202f"): " ", ord("\xa0"): " "}
_SENDER = re.compile(r"(?P<sender>[^:]{1,80}?) ?: (?P<text>.*)", re.DOTALL)
_MEDIA = re.compile(r"<[^<>]*(?:omitted|weggelassen|omis|omitid\w)[^<>]*>|\w+ omitted", re.IGNORECASE)
_CENTURY = 100
_CHAT = "_chat.txt"


class ChatLine(NamedTuple):
    """The first line of a message."""

    number: int
    date: tuple[int, int, int]
    separator: str
    hour: int
    minute: int
    second: int
    half: str
    rest: str


def detect(sample: Sample) -> float:
    lines = [line for line in (sample.head or "").splitlines()[:30] if line.strip()]
    chat_lines = [line for line in lines if _parse_line(0, line) is not None]
    has_sender = any(_SENDER.match(_LINE.match(line.translate(_INVISIBLE))["rest"]) for line in chat_lines[:20])  # type: ignore[index]
    return 0.9 if chat_lines and chat_lines[0] == lines[0] and has_sender and len(chat_lines) * 4 >= len(lines) else 0.0


def read(opened: ImportInput) -> Iterator[SourceItem]:
    files = opened.files
    members = [member for member in files.members if PurePath(member).suffix == ".txt"]
    for member in members if files.members else [""]:
        yield from _read_chat(files, member)


def _read_chat(files: ForeignFiles, member: str) -> Iterator[SourceItem]:
    """Yield the session of a chat, and a message for each group of lines that begins with a date."""
    # The text file in an archive is always called _chat.txt, so the chat's name is taken from the archive.
    title = PurePath(member if member and PurePath(member).name != _CHAT else files.path.name).stem
    is_day_first = _find_day_order(files, member)
    yield RowDraft("session", "chat", title, {"id": f"whatsapp-{title}", "title": title, "session_type": "chat"})
    for line, text in _group_lines(files, member):
        if line is None:
            yield BadRow("chat", "line 1", "the line has no date and follows no message", text)
            continue
        place = f"line {line.number}"
        try:
            said_at = _find_time(line, is_day_first)
        except ValueError as error:
            fields = {"session": f"whatsapp-{title}", "text": text, "created_at": str(line.date)}
            yield BadRow("chat", place, str(error), fields, "message")
            continue
        yield RowDraft("message", "chat", place, _describe(title, text, said_at))


def _describe(title: str, text: str, said_at: datetime) -> dict[str, Any]:
    match = _SENDER.match(text)
    values: dict[str, Any] = {"session": f"whatsapp-{title}", "created_at": said_at.isoformat()}
    if match is None:  # a notice without a sender, such as "Ada created the group"
        return {**values, "role": "system", "text": text}
    media = {"media": True} if _MEDIA.fullmatch(match["text"].strip()) else None
    sender = match["sender"].strip("~ ")  # iOS writes "~" before names that are not in the contacts
    return {**values, "role": "user", "name": sender, "text": match["text"] or "[empty]", "metadata": media}


def _group_lines(files: ForeignFiles, member: str) -> Iterator[tuple[ChatLine | None, str]]:
    """Yield the first line of each message, and its whole text, including the following lines."""
    first: ChatLine | None = None
    texts: list[str] = []
    size = 0
    for number, line in files.read_lines(member):
        parsed = _parse_line(number, line)
        if parsed is None:
            size += len(line)
            if size > 4_000_000:
                raise InvalidInput(
                    f"the message before line {number} has no end", remedy="check that the file is a WhatsApp export"
                )
            texts.append(line.rstrip("\r\n").translate(_INVISIBLE))
            continue
        if first is not None or texts:
            yield first, "\n".join(texts)
        first, texts, size = parsed, [parsed.rest], 0
    if first is not None or texts:
        yield first, "\n".join(texts)


def _parse_line(number: int, line: str) -> ChatLine | None:
    match = _LINE.match(line.rstrip("\r\n").translate(_INVISIBLE))
    if match is None:
        return None
    date = match["date"]
    separator = next(character for character in date if not character.isdigit())
    parts = re.split(r"[./-]", date)
    numbers = (int(parts[0]), int(parts[1]), int(parts[2]))
    half = (match["half"] or "").lower().replace(".", "").replace(" ", "")
    if match["before"]:
        half = "pm" if match["before"] in ("下午", "午後", "오후") else "am"
    clock = (int(match["hour"]), int(match["minute"]), int(match["second"] or 0))
    return ChatLine(number, numbers, separator, *clock, half, match["rest"])


def _find_day_order(files: ForeignFiles, member: str) -> bool:
    """Return whether dates begin with the day. A number above 12 shows this; otherwise the style of the times does."""
    style: ChatLine | None = None
    for number, line in files.read_lines(member):
        parsed = _parse_line(number, line)
        if parsed is None:
            continue
        style = style or parsed
        first, second, _ = parsed.date
        if first > 31:
            return False
        if first > 12:
            return True
        if second > 12:
            return False
    # Dates with slashes and times with AM or PM are in American English, which has the month first.
    return style is None or style.separator != "/" or not style.half


def _find_time(line: ChatLine, is_day_first: bool) -> datetime:
    """Return the local time of a message; raise ValueError if the date does not exist."""
    first, second, third = line.date
    if first > 31:
        year, month, day = first, second, third
    else:
        day, month = (first, second) if is_day_first else (second, first)
        year = third + 2000 if third < _CENTURY else third
    hour = line.hour
    if line.half:
        hour = hour % 12 + (12 if line.half == "pm" else 0)
    try:
        return datetime(year, month, day, hour, line.minute, line.second)  # noqa: DTZ001 — the import's zone follows
    except ValueError:
        raise ValueError(f"{first}{line.separator}{second}{line.separator}{third} is not a date") from None


SOURCE = ImportSource("whatsapp", "WhatsApp's export of a chat, as text, folder or zip archive", detect, read)
