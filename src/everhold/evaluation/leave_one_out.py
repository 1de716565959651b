"""What each retriever is worth: the same questions with one of them left out at a time."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from everhold.engine import Everhold
from everhold.evaluation.locomo import EvaluatedConversation, LocomoReport, ask, ingest
from everhold.recall.recipe import GROUPS, HYBRID, Recipe

WINDOWS = "windows"


def groups_of(recipe: Recipe) -> list[str]:
    """The groups of retrievers that a recipe uses."""
    return [group for group in dict.fromkeys(GROUPS.values()) if recipe.uses(group)]


def variants(recipe: Recipe = HYBRID) -> dict[str, Recipe]:
    """The recipe without each group of its retrievers; without windows, a turn is judged by itself alone."""
    left_out = {group: recipe.without(group) for group in groups_of(recipe)}
    alone = recipe.weights_for(threads=False, voiced=True)
    return {**left_out, WINDOWS: replace(recipe, weights=alone)}


def compare(
    engine: Everhold,
    conversations: Sequence[EvaluatedConversation],
    recipes: Sequence[Recipe],
    progress: Callable[[int], None] | None = None,
) -> list[LocomoReport]:
    """Keeps the conversations once and asks their questions with each recipe."""
    kept = [ingest(engine, conversation) for conversation in conversations]
    reports = []
    for recipe in recipes:
        report = LocomoReport()
        for conversation, turns in zip(conversations, kept, strict=True):
            ask(engine, conversation, turns, recipe, report, progress)
        reports.append(report)
    return reports
