"""Tells questions from statements in English, by how they begin and end."""

import re

_MARKS = ("?", "？", "؟")
_ASKING = "what|who|whom|whose|when|where|which|why|how"
_SUBJECT = "i|you|he|she|it|we|they|there|this|that|these|those|anyone|anybody|someone|somebody|everyone"
_OWNER = "my|your|his|her|our|their|the"
_VERB = "is|are|was|were|am|do|does|did|can|could|will|would|should|shall|has|have|had|may|might|must"
_BEGINNINGS = re.compile(
    rf"(?:{_ASKING})(?:['’](?:s|re|d|ll)\b|\s+(?:{_VERB})\b)"  # "what is", "who's"
    rf"|(?:what|which|whose|who|how)\s+(?!(?:{_SUBJECT}|{_OWNER}|an?)\b)\w"  # "which documents", not "what I like"
    rf"|(?:{_VERB})(?:n['’]t)?\s+(?:{_SUBJECT})\b"  # "do I", "isn't it"
    rf"|(?:is|are|was|were|does|did|can|could|would|should)\s+(?:{_OWNER})\b"  # "does my", but not "do my taxes"
    rf"|(?:tell|remind|show)\s+me\s+(?:about|if|whether|{_ASKING})\b",
    re.IGNORECASE,
)


def is_question(text: str) -> bool:
    """Return whether a line asks something: it ends with a question mark or begins like an English question."""
    return text.rstrip().endswith(_MARKS) or _BEGINNINGS.match(text.lstrip()) is not None
