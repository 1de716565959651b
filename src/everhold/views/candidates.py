"""Choose the sources that propose readings of a question in addition to the rules."""

from collections.abc import Mapping, Sequence
from functools import partial

from everhold.ask.candidates import CandidateSource
from everhold.ask.language_model.examples import find_examples
from everhold.ask.language_model.proposing import ModelOptions, ModelSource
from everhold.ask.language_model.record import ModelRecord, read_records
from everhold.ask.language_model.schema_lines import SchemaNotes, make_notes
from everhold.ask.learning.loading import MemoryCache
from everhold.ask.learning.source import LearnedSource
from everhold.ask.sources.content import load_scope
from everhold.ask.sources.deps import DataDeps
from everhold.ask.sources.lookup import narrow_to_project
from everhold.model import Scope, TableMetadata
from everhold.parts import Parts
from everhold.recall.pipeline import recall
from everhold.recall.recipe import MEANING
from everhold.recall.request import Request
from everhold.views.data_deps import make_data_deps

_MAX_SIMILAR = 20


def make_candidate_sources(parts: Parts, scope: Scope) -> Sequence[CandidateSource]:
    """Return the sources that propose readings of a scope's questions, in the order in which they are called."""
    return [make_learned_source(parts, scope)]


def make_learned_source(parts: Parts, scope: Scope) -> LearnedSource:
    """Return a source that proposes readings from the query patterns and lessons that a scope has learned."""
    find_meanings = partial(_find_meanings, parts, scope)
    cache = MemoryCache(parts.table_cache.learned)
    return LearnedSource(make_data_deps(parts), parts.data_engine, cache, scope, find_meanings)


def _find_meanings(parts: Parts, scope: Scope, question: str) -> Mapping[str, float]:
    """Return the query patterns of the scope that are most similar to a question, each id with its cosine."""
    request = Request(question, _MAX_SIMILAR, minimum=0.0, among=("pattern",), recipe=MEANING)
    search_scope = narrow_to_project(scope) if scope.user is None else scope
    return {hit.record.id: hit.score for hit in recall(parts.recall_deps, search_scope, request)}


def make_model_source(parts: Parts, deps: DataDeps, scope: Scope) -> ModelSource | None:
    """Return the source that asks a language model if no other reading of a question is sure; None without a model."""
    model = parts.question_model
    if model is None:
        return None
    ask_settings = parts.settings.ask
    options = ModelOptions(
        ask_settings.llm == "always", ask_settings.send_rows, ask_settings.llm_seconds, ask_settings.prompt_tokens
    )

    def find_notes(tables: Sequence[TableMetadata]) -> SchemaNotes:
        return make_notes(tables, load_scope(deps, scope).fields, sends_values=options.sends_values)

    def find_record() -> ModelRecord:
        return read_records(parts.records, scope).get(model.name, ModelRecord())

    find_scope_examples = partial(find_examples, parts.records, scope)
    return ModelSource(model, options, parts.count_tokens, find_notes, find_scope_examples, find_record)
