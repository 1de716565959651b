"""Keep the calls of tools together with their returns.

Providers refuse a prompt in which a call is not answered by the next message, or in which a return has no call.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from everhold.context.parts import NO_RETURN, CallPart, MediaPart, Part, PromptTurn, ReturnPart, TextPart

# The ids that both providers accept.
_MAX_ID_LENGTH = 40
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


class PartPlace(NamedTuple):
    """The place of a part among turns."""

    turn: int
    part: int


def pair_returns(turns: Sequence[PromptTurn]) -> dict[PartPlace, PartPlace]:
    """Return the place of the call that each return answers; a return without a call is missing.

    A return that names no call answers the oldest call that is open. Some providers use an id again, so a return
    answers the last call with its id that has no return yet.
    """
    open_calls: dict[PartPlace, str] = {}
    pairs: dict[PartPlace, PartPlace] = {}
    for number, turn in enumerate(turns):
        for place, part in enumerate(turn.parts) if turn.has_tools else ():
            if isinstance(part, CallPart):
                open_calls[PartPlace(number, place)] = part.id
            elif isinstance(part, ReturnPart):
                matching = [call for call, call_id in open_calls.items() if part.call_id in (None, call_id)]
                if matching:
                    call = matching[0] if part.call_id is None else matching[-1]
                    pairs[PartPlace(number, place)] = call
                    del open_calls[call]
    return pairs


def arrange_turns(turns: Sequence[PromptTurn]) -> list[PromptTurn]:
    """Return the turns in the order that providers demand: the returns of a turn's calls directly follow it.

    A call without a return gets one that says so. A return whose call is missing becomes a text.
    """
    pairs = pair_returns(turns)
    returns = {call: turns[place.turn].parts[place.part] for place, call in pairs.items()}
    arranged: list[PromptTurn] = []
    used_ids: set[str] = set()
    for number, turn in enumerate(turns):
        if not turn.has_tools:
            arranged += [turn] if turn.parts else []
            continue
        kept = [
            part
            for place, part in enumerate(turn.parts)
            if not isinstance(part, CallPart) and PartPlace(number, place) not in pairs
        ]
        calls = {place: part for place, part in enumerate(turn.parts) if isinstance(part, CallPart)}
        if not calls:
            said = tuple(part for part in (_describe_lost(part) for part in kept) if part is not None)
            role = "user" if turn.role == "tool" else turn.role
            arranged += [replace(turn, role=role, parts=said)] if said else []
            continue
        ids = {place: _choose_id(call.id, used_ids) for place, call in calls.items()}
        named = [replace(call, id=ids[place]) for place, call in calls.items()]
        arranged.append(replace(turn, role="assistant", parts=(*_drop_lost(kept), *named)))
        answers = [_make_answer(returns.get(PartPlace(number, place)), ids[place]) for place in calls]
        arranged.append(PromptTurn("tool", tuple(answers), message_id=turn.message_id))
        lost = [part for part in kept if isinstance(part, ReturnPart)]
        arranged += [PromptTurn("user", (text,)) for part in lost if (text := _describe_lost(part)) is not None]
    return arranged


def _make_answer(part: Part | None, call_id: str) -> ReturnPart:
    if not isinstance(part, ReturnPart):
        return ReturnPart(call_id, (TextPart(NO_RETURN),), is_error=True)
    return replace(part, call_id=call_id)


def _drop_lost(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if not isinstance(part, ReturnPart)]


def _describe_lost(part: Part) -> Part | None:
    """Return a return without its call as a text, and every other part as it is."""
    if not isinstance(part, ReturnPart):
        return part
    texts = [f"[{item.kind}]" if isinstance(item, MediaPart) else item.text for item in part.parts]
    return TextPart(f"[return of a tool] {' '.join(texts)}") if texts else None


def _choose_id(call_id: str, used_ids: set[str]) -> str:
    """Return an id that both providers accept and that no other call of the prompt has."""
    chosen = _NOT_IN_IDS.sub("_", call_id)
    attempt = 0
    while chosen in used_ids or len(chosen) > _MAX_ID_LENGTH:
        chosen = "call_" + blake2b(f"{attempt} {call_id}".encode(), digest_size=12).hexdigest()
        attempt += 1
    used_ids.add(chosen)
    return chosen


def list_spans(turns: Sequence[PromptTurn]) -> list[tuple[int, int]]:
    """Return the first and the last turn of each call with its return."""
    return [(call.turn, place.turn) for place, call in pair_returns(turns).items()]


def find_lost_returns(turns: Sequence[PromptTurn]) -> set[str | None]:
    """Return the ids of the calls that returns among these turns answer and that are not among them."""
    pairs = pair_returns(turns)
    return {
        part.call_id
        for number, turn in enumerate(turns)
        if turn.has_tools
        for place, part in enumerate(turn.parts)
        if isinstance(part, ReturnPart) and PartPlace(number, place) not in pairs
    }
