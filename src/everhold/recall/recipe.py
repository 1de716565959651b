"""Recipes: the weights with which the signals of the retrievers are added up.

The weights of `hybrid` were fitted; weights.json has them with the command that made them. `meaning` and `words` use
one retriever each.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from everhold.errors import InvalidInput
from everhold.model.validation import suggest_name
from everhold.values import Value, value_class

GROUPS = {
    "meaning": "meaning", "voice": "meaning", "words": "words", "similar": "similar", "date": "time", "timed": "time",
    "when": "time", "speaker": "speaker", "asking": "speaker", "answering": "speaker",
    "name": "name", "importance": "importance",
    "recency": "recency", "session": "session",
}  # fmt: skip
SCORE_DECIMALS = 6
_STEPS = 10.0**SCORE_DECIMALS
# The largest distance from a whole number of steps at which an error in the last bit cannot change the rounding.
_CLEAR = 0.5 - 1e-6
# For a lower total, math.exp(-total) would overflow.
_MIN_TOTAL = -700.0


@value_class
class Recipe(Value):
    """The weights of the signals, and how their weighted sum becomes a score.

    The sum starts at `base`; for a turn of a conversation, of which there are many, at `base` + `turn_base`. A
    `calibrated` score is the chance, 0 to 1, that a memory with this sum answers the question. Otherwise the score is
    the sum. Hits below `minimum`, or below `share` times the best score, are not returned. If `judges` is true, the
    best memories are compared with each other by `judging.py`, which then sets both bounds.

    The best hit gains `lead` times its distance to the next hit, at most to `max_lead`: an answer usually stands out,
    while texts on a similar subject have similar scores. If there is no next hit, the distance is measured from
    `base` + `unrelated`, the usual sum of an unrelated memory. A successor of a superseded memory gets the sum of the
    superseded memory minus `successor_loss`, if that is higher than its own. If the question asks for what was true
    before a change, the superseded memory gets instead the higher sum of the two plus `predecessor_gain`. In the same
    way as a successor, a memory related to a good hit gets the hit's sum minus `related_loss`, if that is higher.

    `saturation`, `length_share` and `usual_terms` are the constants of BM25. A text of `usual_terms` terms is neither
    favoured nor penalised for its length. `usual_terms` is fixed, instead of being the average of the scope, so that
    adding memories changes the scores of others only through the rarity of terms.
    """

    name: str
    weights: Mapping[str, float]
    base: float = 0.0
    turn_base: float = 0.0
    calibrated: bool = False
    minimum: float = 0.0
    share: float = 0.0
    lead: float = 0.0
    max_lead: float = 2.0
    judges: bool = False
    unrelated: float = 1.7
    successor_loss: float = 0.1
    predecessor_gain: float = 1.5
    related_loss: float = 1.0
    saturation: float = 1.2
    length_share: float = 0.5
    usual_terms: float = 12.0
    _folded: dict[tuple[bool, bool], dict[str, float]] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def _groups(self) -> frozenset[str]:
        return frozenset(GROUPS[name.partition(".")[0]] for name, weight in self.weights.items() if weight)

    def uses(self, group: str) -> bool:
        return group in self._groups

    @cached_property
    def looks_around(self) -> bool:
        """Whether the signals of neighbouring turns count for a turn."""
        return any("." in name and not name.endswith((".own", ".often")) for name in self.weights)

    @cached_property
    def damping(self) -> tuple[float, float]:
        k, share = self.saturation, self.length_share
        return k * (1 - share), k * share / self.usual_terms

    def weights_for(self, *, threads: bool, voiced: bool) -> dict[str, float]:
        """Return the weights. The weight of a signal that does not exist is added to the weight of the row's own
        signal.

        Without `threads`, there are no neighbouring turns; without `voiced`, there is no signal "voice".
        """
        known = self._folded.get((threads, voiced))
        if known is None:
            known = self._folded[threads, voiced] = {}
            for name, weight in self.weights.items():
                kind, dot, place = name.partition(".")
                kind = "meaning" if kind == "voice" and not voiced else kind
                place = "own" if dot and place != "often" and not threads else place
                folded = f"{kind}{dot}{place}"
                known[folded] = known.get(folded, 0.0) + weight
        return known

    def score(self, total: float) -> float:
        return self.score_all([total])[0]

    def score_all(self, totals: Iterable[float]) -> list[float]:
        """Return the score of each total. One call for all totals is twice as fast as a call for each."""
        return _compute_chances(totals) if self.calibrated else [round(total, SCORE_DECIMALS) for total in totals]

    def without(self, group: str) -> "Recipe":
        """Return this recipe without one retriever."""
        kept = {name: weight for name, weight in self.weights.items() if GROUPS[name.partition(".")[0]] != group}
        return replace(self, weights=kept)


def _compute_chances(totals: Iterable[float]) -> list[float]:
    """Convert log odds to chances, rounded to SCORE_DECIMALS.

    `round` is slow. So a chance is multiplied by 10**SCORE_DECIMALS and rounded to a whole number, unless it is almost
    halfway between two numbers, where an error in the last bit would change the result.
    """
    exp, scores = math.exp, []
    for total in totals:
        steps = _STEPS / (1 + exp(-total)) if total > _MIN_TOTAL else 0.0
        whole = int(steps + 0.5)
        is_clear = -_CLEAR < steps - whole < _CLEAR
        scores.append(whole / _STEPS if is_clear else round(1 / (1 + exp(-total)), SCORE_DECIMALS))
    return scores


def hybrid_of(fitted: Mapping[str, Any]) -> Recipe:
    """Return the hybrid recipe with the numbers of weights.json.

    The base of turns is fitted to labelled conversations in which many relevant turns have no label, so it is too low;
    `turn_lift` makes up for that. A plain memory was stored on purpose, so its sum begins higher.
    """
    chosen = fitted["set_by_hand"]
    return Recipe(
        "hybrid",
        {**fitted["weights"], **chosen["weights"]},
        base=chosen["plain_base"],
        turn_base=fitted["turn_base"] + chosen["turn_lift"] - chosen["plain_base"],
        calibrated=True,
        minimum=chosen["minimum"],
        share=chosen["share"],
        lead=chosen["lead"],
        judges=True,
    )


FITTED = json.loads(Path(__file__).with_name("weights.json").read_text("utf-8"))
HYBRID = hybrid_of(FITTED)
MEANING = Recipe("meaning", {"meaning.own": 1.0})
WORDS = Recipe("words", {"words.often": 1.0})
RECIPES = {recipe.name: recipe for recipe in (HYBRID, MEANING, WORDS)}


def get_recipe(recipe: str | Recipe) -> Recipe:
    """Return the recipe with this name. A recipe of the caller's own is returned as it is."""
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in RECIPES:
        raise InvalidInput(f"no recipe {recipe!r}", value=recipe, remedy=suggest_name(recipe, RECIPES))
    return RECIPES[recipe]
