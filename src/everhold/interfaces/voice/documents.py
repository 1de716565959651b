"""Decode the body of a request, and check its size, depth and form."""

import json
from typing import Any

from pydantic_core import PydanticCustomError

from everhold.errors import InvalidInput
from everhold.interfaces.shared.documents import document
from everhold.model.fields import walk_json


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# `json.loads` with an option makes a decoder for every call.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(default=document, ensure_ascii=False)


def decode_request(body: bytes | None, max_bytes: int) -> dict[str, Any]:
    """Return the JSON object of a request. Raise InvalidInput for any other content."""
    if body is None:
        raise InvalidInput("the message has the wrong frames", remedy="send one frame of JSON, or an empty one and it")
    if len(body) > max_bytes:
        raise InvalidInput(
            f"the request has {len(body):,} bytes, over the limit of {max_bytes:,}",
            value=len(body),
            remedy="send less at once, or raise voice.max_bytes",
        )
    try:
        request = _DECODER.decode(body.decode())
    except RecursionError:
        raise InvalidInput("the request is nested too deeply", remedy="send a flatter object") from None
    except ValueError:  # also UnicodeDecodeError; the message is not quoted, because it may hold what users said
        raise InvalidInput("the request is not JSON in UTF-8", remedy="send one JSON object") from None
    if not isinstance(request, dict):
        raise InvalidInput(
            f"the request is a JSON {type(request).__name__}", remedy='send an object, such as {"action": "…"}'
        )
    try:
        walk_json(request, _refuse_leaf)
    except PydanticCustomError as error:
        raise InvalidInput.from_sentence(f"the request cannot be read: {error}") from None
    return request


def encode_reply(reply: dict[str, Any]) -> bytes:
    return _ENCODER.encode(reply).encode()


def _refuse_leaf(value: Any) -> None:
    raise PydanticCustomError("leaf", f"a {type(value).__name__} is not JSON; leave it out")
