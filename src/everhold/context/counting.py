"""Count the tokens that a text costs in a prompt."""

from everhold.ports.tokenizer import Tokenizer
from everhold.text.chunking import MAX_TOKEN_LENGTH

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
