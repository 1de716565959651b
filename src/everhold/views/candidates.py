"""Chooses which sources propose readings of a question besides the rules."""

from collections.abc import Sequence

from everhold.ask.candidates import CandidateSource
from everhold.model import Scope
from everhold.parts import Parts


def make_candidate_sources(parts: Parts, scope: Scope) -> Sequence[CandidateSource]:
    """Return the sources of a scope's questions, in the order in which they are asked."""
    return ()
