"""Measure what each retriever contributes by asking the same questions without it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from everhold.engine import Everhold
from everhold.evaluation.locomo import EvaluatedConversation, LocomoReport, ask, ingest
from everhold.recall.recipe import GROUPS, HYBRID, Recipe

WINDOWS = "windows"


def list_groups(recipe: Recipe) -> list[str]:
    """Return the groups of retrievers that a recipe uses."""
    return [group for group in dict.fromkeys(GROUPS.values()) if recipe.uses(group)]


def make_variants(recipe: Recipe = HYBRID) -> dict[str, Recipe]:
    """Return one variant of the recipe per group of retrievers, without this group, and one without windows."""
    without_group = {group: recipe.without(group) for group in list_groups(recipe)}
    without_windows = recipe.weights_for(threads=False, voiced=True)
    return {**without_group, WINDOWS: replace(recipe, weights=without_windows)}


def compare(
    engine: Everhold,
    conversations: Sequence[EvaluatedConversation],
    recipes: Sequence[Recipe],
    progress: Callable[[int], None] | None = None,
) -> list[LocomoReport]:
    """Store the conversations once, ask their questions with each recipe, and return a report for each."""
    turn_ids = [ingest(engine, conversation) for conversation in conversations]
    reports = []
    for recipe in recipes:
        report = LocomoReport()
        for conversation, ids in zip(conversations, turn_ids, strict=True):
            ask(engine, conversation, ids, recipe, report, progress)
        reports.append(report)
    return reports
