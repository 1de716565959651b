"""The registry of the kinds of entities that are searched.

An index row has the columns OWNER_COLUMNS for every kind of entity. The registration of a kind maps them to the columns
of the entity. Everything that searches (images, the stores' indexes, Chroma) uses this registry.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, get_args

from everhold import model
from everhold.model.base import Entity
from everhold.model.memory import DEFAULT_PRIORITY, OwnerKind, compute_importance
from everhold.values import Value, value_class

OWNER_COLUMNS = (
    "id", "kind", "reach", "project_id", "user_id", "agent_id", "session_id", "importance", "strength", "created_at",
    "expires_at", "valid_from", "valid_to", "superseded_at", "superseded_by", "occurred_at", "speaker", "aliases",
    "provenance",
)  # fmt: skip
_DEFAULTS: Mapping[str, Any] = {"importance": compute_importance(DEFAULT_PRIORITY), "strength": 1.0}


@value_class
class Searchable(Value):
    """The mapping of one kind of entity to the columns of search.

    `table` is the entity's table and the name of its lines in the change feed. `text` returns the text to index.
    `renamed` maps columns of an index row to columns of the entity with another name, and `constants` maps them to
    fixed values. Every other column is the entity's column of the same name, or absent. If `has_vectors` is false, the
    kind is searched by words only. `chunk_tokens` is the size of the chunks if it differs from the setting. If
    `has_links` is true, links say which agents see a row, and a new text of a row replaces its chunks.
    """

    kind: OwnerKind
    entity_name: str
    table: str
    text: Callable[[Any], str]
    renamed: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    has_vectors: bool = True
    chunk_tokens: int | None = None
    has_links: bool = False

    @cached_property
    def entity(self) -> type[Entity]:
        """The entity's class, imported when it is first used."""
        entity: type[Entity] = getattr(model, self.entity_name)
        return entity

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """The entity's column for each column of an index row. Columns that the entity lacks are left out."""
        same_names = {
            name: name for name in OWNER_COLUMNS if name in self.entity.model_fields and name not in self.constants
        }
        return {**same_names, **self.renamed}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The entity's columns to read, its id first. `arrange` turns their values into an index row."""
        return tuple(self.sources[name] for name in OWNER_COLUMNS if name in self.sources)

    @cached_property
    def arrange(self) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """A function that turns the values of `columns` into those of OWNER_COLUMNS."""
        if self.columns == OWNER_COLUMNS:
            return lambda values: values
        present_names = [name for name in OWNER_COLUMNS if name in self.sources]
        defaults = {**_DEFAULTS, **self.constants}
        # Each column is either the value at a position of the values that were read, or a constant.
        plan = [
            (present_names.index(name) if name in self.sources else None, defaults.get(name)) for name in OWNER_COLUMNS
        ]
        return lambda values: tuple([constant if position is None else values[position] for position, constant in plan])

    @cached_property
    def fields(self) -> frozenset[str]:
        """The entity's columns."""
        return frozenset(self.entity.model_fields)

    def has_column(self, column: str) -> bool:
        """Return whether the entity has a column."""
        return column in self.fields

    def get_value(self, row: Entity, column: str) -> Any:
        """Return a row's value for a column of an index row; None if the row has none."""
        source = self.sources.get(column)
        return self.constants.get(column) if source is None else row.__dict__[source]


def _register(*searchables: Searchable) -> Mapping[str, Searchable]:
    by_kind: dict[str, Searchable] = {searchable.kind: searchable for searchable in searchables}
    assert by_kind.keys() == set(get_args(OwnerKind)), "every owner kind is registered once"
    return by_kind


SEARCHABLE = _register(
    Searchable("memory", "Memory", "memories", lambda memory: memory.text),
    Searchable(
        "message",
        "Message",
        "messages",
        lambda message: message.text or "",
        renamed={"speaker": "name"},
        constants={"kind": "conversation"},  # so that messages count as turns, whose neighbours affect their scores
    ),
    Searchable(
        "episode",
        "Episode",
        "episodes",
        lambda episode: episode.summary,
        renamed={"occurred_at": "span_from"},
        chunk_tokens=500,  # so that a summary is one chunk, and a question is compared with the whole summary
    ),
    Searchable("block", "Block", "blocks", lambda block: block.value, has_links=True),
    Searchable("source", "Source", "sources", lambda source: source.name),
    Searchable(
        "table",
        "TableMetadata",
        "table_metadata",
        lambda table: _describe(table.table_name, table.description),
        chunk_tokens=200,  # so that all columns of a table are usually in one chunk
    ),
    Searchable("field", "FieldMetadata", "field_metadata", lambda row: _describe(row.name, row.description)),
    Searchable("pattern", "QueryPattern", "query_patterns", lambda pattern: pattern.question),
)
KIND_OF_TABLE: Mapping[str, str] = {searchable.table: kind for kind, searchable in SEARCHABLE.items()}
# By the name of the entity's class, so that no entity is imported.
SEARCHABLE_BY_CLASS_NAME: Mapping[str, Searchable] = {
    searchable.entity_name: searchable for searchable in SEARCHABLE.values()
}


def _describe(name: str, description: str | None) -> str:
    return f"{name}: {description}" if description else name
