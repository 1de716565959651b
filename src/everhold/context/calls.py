"""Keep the calls of tools together with their returns.

Providers refuse a prompt in which a call is not answered by the next message, or in which a return has no call.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from everhold.context.parts import NO_RETURN, CallPart, MediaPart, Part, PromptTurn, ReturnPart, TextPart

# Both providers accept ids of these characters and of at most this length.
_MAX_ID_LENGTH = 40
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


class PartPlace(NamedTuple):
    """The position of a part: the index of its turn, and its index in the turn."""

    turn: int
    part: int


def pair_returns(turns: Sequence[PromptTurn]) -> dict[PartPlace, PartPlace]:
    """Return the position of the call by the position of its return; returns without a call are left out.

    A return that names no call answers the oldest call without a return. Some providers reuse ids, so a return that
    names one answers the last call with this id that has no return yet.
    """
    open_calls: dict[PartPlace, str] = {}
    pairs: dict[PartPlace, PartPlace] = {}
    for turn_index, turn in enumerate(turns):
        for index, part in enumerate(turn.parts) if turn.has_tools else ():
            if isinstance(part, CallPart):
                open_calls[PartPlace(turn_index, index)] = part.id
            elif isinstance(part, ReturnPart):
                matching = [call for call, call_id in open_calls.items() if part.call_id in (None, call_id)]
                if matching:
                    call = matching[0] if part.call_id is None else matching[-1]
                    pairs[PartPlace(turn_index, index)] = call
                    del open_calls[call]
    return pairs


def arrange_turns(turns: Sequence[PromptTurn]) -> list[PromptTurn]:
    """Return the turns in the order that providers require: the returns of a turn's calls directly follow the turn.

    A call without a return gets one that says that there is none. A return without a call becomes a text.
    """
    pairs = pair_returns(turns)
    returns = {call: turns[answer.turn].parts[answer.part] for answer, call in pairs.items()}
    arranged: list[PromptTurn] = []
    used_ids: set[str] = set()
    for turn_index, turn in enumerate(turns):
        if not turn.has_tools:
            arranged += [turn] if turn.parts else []
            continue
        other_parts = [
            part
            for index, part in enumerate(turn.parts)
            if not isinstance(part, CallPart) and PartPlace(turn_index, index) not in pairs
        ]
        calls = {index: part for index, part in enumerate(turn.parts) if isinstance(part, CallPart)}
        if not calls:
            texts = tuple(part for part in (_convert_return(part) for part in other_parts) if part is not None)
            role = "user" if turn.role == "tool" else turn.role
            arranged += [replace(turn, role=role, parts=texts)] if texts else []
            continue
        ids = {index: _choose_id(call.id, used_ids) for index, call in calls.items()}
        calls_with_ids = [replace(call, id=ids[index]) for index, call in calls.items()]
        arranged.append(replace(turn, role="assistant", parts=(*_drop_returns(other_parts), *calls_with_ids)))
        answers = [_make_answer(returns.get(PartPlace(turn_index, index)), ids[index]) for index in calls]
        arranged.append(PromptTurn("tool", tuple(answers), message_id=turn.message_id))
        lost_returns = [part for part in other_parts if isinstance(part, ReturnPart)]
        arranged += [
            PromptTurn("user", (text,)) for part in lost_returns if (text := _convert_return(part)) is not None
        ]
    return arranged


def _make_answer(part: Part | None, call_id: str) -> ReturnPart:
    if not isinstance(part, ReturnPart):
        return ReturnPart(call_id, (TextPart(NO_RETURN),), is_error=True)
    return replace(part, call_id=call_id)


def _drop_returns(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if not isinstance(part, ReturnPart)]


def _convert_return(part: Part) -> Part | None:
    """Convert a return without a call to a text, or to None if it has no content; return any other part unchanged."""
    if not isinstance(part, ReturnPart):
        return part
    texts = [f"[{item.kind}]" if isinstance(item, MediaPart) else item.text for item in part.parts]
    return TextPart(f"[return of a tool] {' '.join(texts)}") if texts else None


def _choose_id(call_id: str, used_ids: set[str]) -> str:
    """Return an id that both providers accept, add it to `used_ids`, and avoid the ids in it."""
    accepted_id = _NOT_IN_IDS.sub("_", call_id)
    attempt = 0
    while accepted_id in used_ids or len(accepted_id) > _MAX_ID_LENGTH:
        accepted_id = "call_" + blake2b(f"{attempt} {call_id}".encode(), digest_size=12).hexdigest()
        attempt += 1
    used_ids.add(accepted_id)
    return accepted_id


def list_spans(turns: Sequence[PromptTurn]) -> list[tuple[int, int]]:
    """Return, for each call that has a return, the index of the call's turn and the index of the return's turn."""
    return [(call.turn, answer.turn) for answer, call in pair_returns(turns).items()]


def find_missing_calls(turns: Sequence[PromptTurn]) -> set[str | None]:
    """Return the ids of the calls that these turns answer but do not contain; None for a return without an id."""
    pairs = pair_returns(turns)
    return {
        part.call_id
        for turn_index, turn in enumerate(turns)
        if turn.has_tools
        for index, part in enumerate(turn.parts)
        if isinstance(part, ReturnPart) and PartPlace(turn_index, index) not in pairs
    }
