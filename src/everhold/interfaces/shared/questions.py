"""Distinguish English questions from statements by their first words and their last character.

A line that could be either is taken as a question: an interface then answers it and says how to store it.
"""

import re

_QUESTION_MARKS = ("?", "？", "؟")
_QUESTION_WORD = "what|who|whom|whose|when|where|which|why|how"
_SUBJECT = "i|you|he|she|it|we|they|there|this|that|these|those|anyone|anybody|someone|somebody|everyone"
_DETERMINER = "my|your|his|her|our|their|the"
_NAME = r"(?-i:[A-Z][a-zß-ÿ]+)(?!['’]s\b)\b"
_STATE_WORD = r"an?|the|my|your|his|her|our|their|still|already|ever|been|here|home|allergic|\w{2,}(?:ing|ed)"
_VERB = "is|are|was|were|am|do|does|did|can|could|will|would|should|shall|has|have|had|may|might|must"
_SEARCH_VERB = "list|show|find|search|display|look up"
_BEGINNINGS = re.compile(
    rf"(?:{_QUESTION_WORD})(?:['’](?:s|re|d|ll)\b|\s+(?:{_VERB})\b)"  # "what is", "who's"
    r"|(?:what|who|where|when|why|how)s\b"  # "whats"
    rf"|(?:what|which|whose|who|how|why)\s+(?!(?:{_SUBJECT}|{_DETERMINER}|an?)\b)\w"  # "which tea", not "what I like"
    rf"|(?:{_VERB})(?:n['’]?t)?\s+(?:{_SUBJECT})\b"  # "do I", "isn't it"
    rf"|(?:is|are|was|were|does|did|can|could|would|should)\s+(?:{_DETERMINER})\b"  # "does my", but not "do my taxes"
    rf"|(?:does|did|would|can|could|should)\s+{_NAME}\s+\w"  # "does Anna like"
    rf"|do\s+{_NAME}\s+and\s+{_NAME}\s+\w"  # but not "do Yoga daily"
    rf"|(?:is|are|was|were|has|have|had)\s+{_NAME}\s+(?:{_STATE_WORD})\b"  # "is Anna a", not "is German by birth"
    rf"|will\s+{_NAME}\s+(?!(?:is|was|has|had|and|came|went|said|\w+s|\w+ed)\b)\w"  # not "Will Smith called"
    rf"|(?:tell|remind|show)\s+me\s+(?:about|if|whether|{_QUESTION_WORD})\b"
    rf"|(?:{_SEARCH_VERB})\s+(?:me\s+)?(?:all|any|every\w*|{_DETERMINER}|{_QUESTION_WORD})\b"  # "list my allergies"
    r"|any(?:\s+\w+|thing|one|body)\s+(?:about|on|from|for|of|new|else|left|yet)\b"  # "any news about the van"
    r"|i(?:['’]m|\s+am|\s+was)?\s+wonder(?:ing)?\b|i\s+(?:want|need|would\s+like)\s+to\s+know\b"
    rf"|i\s+(?:forgot|forget|don['’]?t\s+(?:know|remember)|can['’]?t\s+remember)\s+(?:if|whether|{_QUESTION_WORD})\b",
    re.IGNORECASE,
)
# A statement about a clause: "Who dares wins is Dad's motto".
_STATEMENT = re.compile(
    rf"who\s+\w+s\s+(?:\w+\s+)?(?-i:[a-z]+s)\s+(?:is|was)\s+(?:an?|{_DETERMINER}|\w+['’]s)\s", re.IGNORECASE
)


def is_question(text: str) -> bool:
    """Return whether a line asks something: it ends with a question mark or begins like an English question."""
    line = text.strip()
    return line.endswith(_QUESTION_MARKS) or (_BEGINNINGS.match(line) is not None and _STATEMENT.match(line) is None)
