"""Read WhatsApp's text export of a chat. The format of its dates depends on the language of the phone."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import PurePath
from typing import Any, NamedTuple

from everhold.errors import InvalidInput
from everhold.importers.files import ForeignFiles
from everhold.importers.local_dates import (
    BEFORE_TIME,
    CLOCK,
    NUMBERS,
    DateNumbers,
    DateOrder,
    clean_text,
    get_numbers,
    make_moment,
)
from everhold.importers.source import BadRow, ImportInput, ImportSource, RowDraft, Sample, SourceItem

# "31/12/2023, 21:15 - Ada: …", "[31.12.23, 21:15:33] Ada: …", "12/31/23, 9:15 PM - Ada: …", "2023-12-31, 21:15 - …",
# "31/12/2023 à 21:15 - …", "31.12.2023 klo 21.15 - …", "2023/12/31 下午9:15 - …", "2023. 12. 31. 오후 9:15, Ada : …",
# "21:15, 31/12/2023 - Ada: …"
_END = r"(?:\]| [-–]|(?<=\d),) "
_LINE_STARTS = (
    re.compile(rf"\[?{NUMBERS}\.?[, ]+(?:{BEFORE_TIME} )?{CLOCK}\.?{_END}"),
    re.compile(rf"\[?{CLOCK}[, ]+{NUMBERS}{_END}"),
)
# The beginning of a line that holds its time. Only this part is cleaned: what was said stays as it is.
_MAX_START = 60
_MAX_MESSAGE_CHARACTERS = 4_000_000
# Marks of direction, and blanks that do not break, which newer versions write around names.
_INVISIBLE = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202c\ufeff")) | {ord("\u202f"): " ", ord("\xa0"): " "}
_SENDER = re.compile(r"(?P<sender>[^:]{1,80}?) ?: (?P<text>.*)", re.DOTALL)
_MEDIA = re.compile(r"<[^<>]*(?:omitted|weggelassen|omis|omitid\w)[^<>]*>|\w+ omitted", re.IGNORECASE)
_CHAT = "_chat.txt"


class ChatLine(NamedTuple):
    """The first line of a message."""

    number: int
    date: DateNumbers
    match: re.Match[str]
    body: str


def detect(sample: Sample) -> float:
    lines = [line for line in (sample.head or "").splitlines()[:30] if line.strip()]
    chat_lines = [chat_line for line in lines if (chat_line := _parse_line(0, line)) is not None]
    has_sender = any(_SENDER.match(line.body) for line in chat_lines[:20])
    is_first = bool(lines) and _parse_line(0, lines[0]) is not None
    # Messages may have several lines, but hardly more than four on average.
    return 0.9 if is_first and has_sender and len(chat_lines) * 4 >= len(lines) else 0.0


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    files = import_input.files
    members = [member for member in files.members if PurePath(member).suffix == ".txt"]
    for member in members if files.members else [""]:
        yield from _read_chat(files, member, import_input.date_order)


def _read_chat(files: ForeignFiles, member: str, date_order: DateOrder | None) -> Iterator[SourceItem]:
    # The text in an archive is always called _chat.txt; the archive has the name of the chat.
    title = PurePath(member if member and PurePath(member).name != _CHAT else files.path.name).stem
    order = date_order or _find_order(files, member)
    yield RowDraft("session", "chat", title, {"id": f"whatsapp-{title}", "title": title, "session_type": "chat"})
    for line, text in _group_lines(files, member):
        if line is None:
            yield BadRow("chat", "line 1", "the line has no date and follows no message", text)
            continue
        place = f"line {line.number}"
        try:
            said_at = make_moment(line.date.make_day(order), line.match)
        except ValueError:
            fields = {"session": f"whatsapp-{title}", "text": text, "created_at": str(line.date)}
            yield BadRow("chat", place, f"{line.date} is not a date", fields, "message")
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
    first_line: ChatLine | None = None
    texts: list[str] = []
    size = 0
    for number, line in files.read_lines(member):
        chat_line = _parse_line(number, line)
        if chat_line is None:
            size += len(line)
            if size > _MAX_MESSAGE_CHARACTERS:
                raise InvalidInput(
                    f"the message before line {number} has no end", remedy="check that the file is a WhatsApp export"
                )
            texts.append(line.rstrip("\r\n").translate(_INVISIBLE))
            continue
        if first_line is not None or texts:
            yield first_line, "\n".join(texts)
        first_line, texts, size = chat_line, [chat_line.body], 0
    if first_line is not None or texts:
        yield first_line, "\n".join(texts)


def _parse_line(number: int, line: str) -> ChatLine | None:
    """Return the parts of a line that begins with a time; None for any other."""
    text = line.rstrip("\r\n")
    start = clean_text(text[:_MAX_START])
    match = next((match for pattern in _LINE_STARTS if (match := pattern.match(start)) is not None), None)
    if match is None or (start[match.end() - 2] == "," and match["before"] is None):
        return None
    return ChatLine(number, get_numbers(match), match, _find_body(text, start, match.end()))


def _find_body(text: str, start: str, end: int) -> str:
    """Return what follows the time of a line, as it was written."""
    # Cleaning leaves characters out, so the beginning may be longer than what was matched of it.
    lengths = range(end, min(len(text), _MAX_START) + 1)
    position = next((length for length in lengths if clean_text(text[:length]) == start[:end]), end)
    return text[position:].translate(_INVISIBLE)


def _find_order(files: ForeignFiles, member: str) -> DateOrder:
    """Return the order of dates. A number above 12 decides; otherwise the style of the times does."""
    first_line: ChatLine | None = None
    for number, line in files.read_lines(member):
        chat_line = _parse_line(number, line)
        if chat_line is None:
            continue
        first_line = first_line or chat_line
        order = chat_line.date.find_order()
        if order is not None:
            return order
    # Only American English has slashes, months first, and half days.
    is_american = first_line is not None and first_line.date.separator == "/" and first_line.match["half"]
    return "mdy" if is_american else "dmy"


def _find_members(sample: Sample) -> list[str]:
    return [member for member in sample.members if PurePath(member).suffix == ".txt"]


SOURCE = ImportSource(
    "whatsapp",
    "WhatsApp's export of a chat, as text, folder or zip archive",
    detect,
    read,
    find_members=_find_members,
)
