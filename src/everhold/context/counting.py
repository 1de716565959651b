"""Count the tokens that a text costs in a prompt."""

from hashlib import blake2b

from everhold.ports.tokenizer import Tokenizer
from everhold.text.chunking import MAX_TOKEN_LENGTH

# The maximum number of cached counts. They take about a megabyte.
_MAX_COUNTS = 10_000
# A Chinese, Thai or Hindi character has three bytes in UTF-8 and is counted as one token.
BYTES_PER_TOKEN = 3


def count(tokenizer: Tokenizer, text: str) -> int:
    """Return the number of tokens of a text, estimated upwards where models differ.

    The tokenizer belongs to the embedding model. It counts a word of an unknown script as one token and a line break as
    none, but the model that reads the prompt counts more. So a token that is not ASCII, or longer than any word of a
    vocabulary, is counted by its bytes, and each line break is counted as one token.
    """
    ascii_only = text.isascii()
    total = text.count("\n")
    for start, end in tokenizer.offsets(text):
        if end - start <= MAX_TOKEN_LENGTH and (ascii_only or text[start:end].isascii()):
            total += 1
        else:
            size = len(text[start:end].encode("utf-8", "replace"))
            total += max(1, -(-size // BYTES_PER_TOKEN))  # rounds up
    return total


class TokenCounter:
    """Counts tokens like `count` and caches the counts by digests, because the cache must not contain erased texts.

    The window of a conversation has nearly the same texts at every turn, and building it is mostly counting.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._counts: dict[bytes, int] = {}

    def __call__(self, text: str) -> int:
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        tokens = self._counts.get(digest)
        if tokens is None:
            tokens = count(self._tokenizer, text)
            if len(self._counts) >= _MAX_COUNTS:
                self._counts.clear()
            self._counts[digest] = tokens
        return tokens
