"""Several hits that say the same are one hit: the best of them."""

import numpy as np

from recollect.facts.conflicts import LEAST_LIKENESS, near_duplicates
from recollect.model import Memory
from recollect.recall.scoring import Scored


class Said:
    """What the hits so far have said."""

    def __init__(self) -> None:
        self._said: list[tuple[Scored, Memory]] = []
        self._ids: set[str] = set()

    def takes(self, one: Scored, memory: Memory) -> bool:
        """Whether a memory says something that none before it has said; if so it is taken in.

        A fact and the message it was drawn from say the same, whichever comes first.
        """
        source = memory.provenance.get("memory")
        if (
            source in self._ids
            or memory.id in self._ids
            or any(self._repeats(one, memory, *other) for other in self._said)
        ):
            return False
        self._said.append((one, memory))
        self._ids |= {memory.id, source} if isinstance(source, str) else {memory.id}
        return True

    @staticmethod
    def _repeats(one: Scored, memory: Memory, other: Scored, held: Memory) -> bool:
        likeness = float(np.dot(one.image.vectors[one.row], other.image.vectors[other.row]))
        return likeness >= LEAST_LIKENESS and near_duplicates(held.text, memory.text, likeness)
