"""Count the tokens that a text costs in a prompt."""

from hashlib import blake2b

from everhold.ports.tokenizer import Tokenizer
from everhold.text.chunking import MAX_TOKEN_LENGTH

_MAX_COUNTS = 10_000  # about a megabyte
BYTES_PER_TOKEN = 3  # the UTF-8 bytes of a Chinese, Thai or Hindi character


def count(tokenizer: Tokenizer, text: str) -> int:
    """Return the number of tokens of a text, rounded up where models differ.

    The tokenizer is the embedding model's. It counts a word of an unknown script as one token and a line break as
    none; the model that reads the prompt counts more. So a token that is not ASCII, or longer than any word of a
    vocabulary, is counted by its bytes, and each line break as one token.
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
    """Counts tokens like `count` and remembers the counts, by digests: a cache must not hold texts that are erased.

    The window of a conversation has nearly the same texts at every turn, and counting is most of its work.
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
