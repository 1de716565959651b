"""Read Slack's export: a folder or zip archive with users, channels, and a file per channel and day."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from everhold.importers.files import ForeignFiles
from everhold.importers.source import BadRow, ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem
from everhold.importers.values import list_objects

_LISTS = ("channels.json", "groups.json", "dms.json", "mpims.json")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
# Mentions, channels, groups and links: <@U1>, <#C1|garden>, <!here>, <https://example.org|a page>
_MARKUP = re.compile(r"<(?P<sign>[@#!]?)(?P<target>[^<>|]+)(?:\|(?P<label>[^<>]*))?>")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def detect(sample: Sample) -> float:
    names = {PurePath(member).name for member in sample.members}
    has_days = any(_DAY.fullmatch(name) for name in names)
    return 0.95 if has_days and names & {*_LISTS, "users.json"} else 0.0


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    files = import_input.files
    users = {str(row.get("id")): _find_name(row) for row in _read_list(files, "users.json")}
    channels = {str(row.get("name") or row.get("id")): row for name in _LISTS for row in _read_list(files, name)}
    for link in files.links:
        yield LeftOut("files", f"{link} is a link, and links are not followed")
    folder = None
    # Members are sorted, so the days of a channel are together and in order.
    for member in files.members:
        path = PurePath(member)
        if not _DAY.fullmatch(path.name):
            continue
        if path.parent.name != folder:
            folder = path.parent.name
            yield _describe_channel(folder, channels.get(folder, {}))
        yield from _read_day(files, member, _find_channel_id(folder, channels.get(folder, {})), users)


def _read_list(files: ForeignFiles, name: str) -> list[Mapping[str, Any]]:
    member = next((member for member in files.members if PurePath(member).name == name), None)
    if member is None:
        return []
    with files.open_json(member) as stream:
        rows = [stream.read_value() for _ in stream.iterate_items()]
    return [row for row in rows if isinstance(row, dict)]


def _find_name(row: Mapping[str, Any]) -> str:
    profile = row.get("profile")
    profile = profile if isinstance(profile, dict) else {}
    names = (
        profile.get("display_name"),
        row.get("real_name"),
        profile.get("real_name"),
        row.get("name"),
        row.get("id"),
    )
    return next((str(name) for name in names if name), "")


def _find_channel_id(folder: str, channel: Mapping[str, Any]) -> str:
    return str(channel.get("id") or folder)


def _describe_channel(folder: str, channel: Mapping[str, Any]) -> RowDraft:
    topic = channel.get("topic")
    purpose = channel.get("purpose")
    values = {
        "id": _find_channel_id(folder, channel),
        "title": channel.get("name") or folder,
        "session_type": "channel",
        "topic": topic.get("value") or None if isinstance(topic, dict) else None,
        "created_at": channel.get("created"),
        "metadata": {"purpose": purpose.get("value")} if isinstance(purpose, dict) and purpose.get("value") else None,
    }
    return RowDraft("session", "channels", f"channel {folder!r:.80}", values)


def _read_day(files: ForeignFiles, member: str, channel_id: str, users: Mapping[str, str]) -> Iterator[SourceItem]:
    with files.open_json(member) as stream:
        for index in stream.iterate_items():
            row, place = stream.read_value(), f"{member}[{index}]"
            if not isinstance(row, dict):
                yield BadRow("messages", place, "the message is not an object", row, "message")
            elif row.get("subtype") in ("channel_join", "channel_leave", "group_join", "bot_add"):
                yield LeftOut("messages", "says only who joined or left")
            elif not (row.get("text") or row.get("files") or row.get("blocks") or row.get("attachments")):
                yield LeftOut("messages", "says nothing")
            else:
                yield RowDraft("message", "messages", place, _describe(channel_id, row, users))
        stream.require_end()


def _render_markup(match: re.Match[str], users: Mapping[str, str]) -> str:
    target, label = match["target"], match["label"]
    if match["sign"] == "@":
        return f"@{users.get(target) or label or target}"
    if match["sign"]:
        return f"{'#' if match['sign'] == '#' else '@'}{(label or target).lstrip('@')}"
    return f"{label} ({target})" if label and label != target else target


def _describe(channel_id: str, row: Mapping[str, Any], users: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a message from a row of Slack's export, with the markup replaced by names."""
    raw = str(row.get("text") or "")
    sender = row.get("user") or row.get("bot_id")
    profile = row.get("user_profile")
    name = users.get(str(sender)) or (_find_name({"profile": profile}) if isinstance(profile, dict) else None)
    files = [{"name": item.get("name"), "title": item.get("title")} for item in list_objects(row, "files")]
    metadata = {"thread": row.get("thread_ts"), "files": files or None, "raw": raw if "<" in raw else None}
    text = _MARKUP.sub(lambda match: _render_markup(match, users), raw)
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    attachment_texts = [item.get("fallback") or item.get("text") for item in list_objects(row, "attachments")]
    file_names = ", ".join(str(item["title"] or item["name"]) for item in files)
    return {
        "id": f"{channel_id}/{row.get('client_msg_id') or row.get('ts')}",
        "session": channel_id,
        "role": "assistant" if row.get("bot_id") else "user",
        "name": name or row.get("username") or None,
        "sender_id": sender,
        "text": text or "\n".join(str(item) for item in attachment_texts if item) or f"[{file_names or 'attachment'}]",
        "created_at": row.get("ts"),
        "metadata": {key: value for key, value in metadata.items() if value is not None},
    }


def _find_members(sample: Sample) -> list[str]:
    names = {*_LISTS, "users.json"}
    return [name for name in sample.members if PurePath(name).name in names or _DAY.fullmatch(PurePath(name).name)]


SOURCE = ImportSource("slack", "Slack's export, as a folder or zip archive", detect, read, find_members=_find_members)
