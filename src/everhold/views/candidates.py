"""Chooses which sources propose readings of a question besides the rules."""

from collections.abc import Sequence
from functools import partial

from everhold.ask.candidates import CandidateSource
from everhold.ask.language_model.examples import find_examples
from everhold.ask.language_model.proposing import ModelOptions, ModelSource
from everhold.ask.language_model.schema_lines import SchemaNotes, make_notes
from everhold.ask.sources.content import load_scope
from everhold.ask.sources.deps import DataDeps
from everhold.model import Scope, TableMetadata
from everhold.parts import Parts


def make_candidate_sources(parts: Parts, scope: Scope) -> Sequence[CandidateSource]:
    """Return the sources of a scope's questions, in the order in which they are asked."""
    return ()


def make_model_source(parts: Parts, deps: DataDeps, scope: Scope) -> ModelSource | None:
    """Return the language model that is asked about a scope's questions if nothing else is sure; None without one."""
    if parts.question_model is None:
        return None
    chosen = parts.settings.ask
    options = ModelOptions(chosen.llm == "always", chosen.send_rows, chosen.llm_seconds, chosen.prompt_tokens)

    def find_notes(tables: Sequence[TableMetadata]) -> SchemaNotes:
        return make_notes(tables, load_scope(deps, scope).fields, sends_values=options.sends_values)

    examples = partial(find_examples, parts.records, scope)
    return ModelSource(parts.question_model, options, parts.count_tokens, find_notes, examples)
