"""How many tokens a text costs in a prompt."""

from everhold.ports.tokenizer import Tokenizer
from everhold.text.chunking import LONGEST_TOKEN

BYTES_PER_TOKEN = 3


def count(tokenizer: Tokenizer, text: str) -> int:
    """The tokens of a text, counted high where models differ.

    The tokenizer is the embedding model's. To it a word of a script that it does not know is one token, and a line
    break none; to the model that reads the prompt they are more. So a token that is not ASCII, or longer than any
    word of a vocabulary, is counted by its bytes, and each line break as one.
    """
    ascii_only = text.isascii()
    total = text.count("\n")
    for start, end in tokenizer.offsets(text):
        if end - start <= LONGEST_TOKEN and (ascii_only or text[start:end].isascii()):
            total += 1
        else:
            size = len(text[start:end].encode("utf-8", "replace"))
            total += max(1, -(-size // BYTES_PER_TOKEN))
    return total
