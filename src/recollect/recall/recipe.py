"""How much each sign of relevance counts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """Weights of the signs, and the constants of BM25.

    A score is the weighted sum of `meaning` (cosine, −1 to 1), `words` (BM25 as a share of the most these terms could
    give, 0 to 1) and `importance` (0 to 1). A chunk of `usual_terms` terms is neither favoured nor penalised for its
    length; the length is fixed, not the scope's average, so that adding memories does not move the scores of others
    except through how rare a term is.
    """

    name: str
    meaning: float = 0.6
    words: float = 0.4
    importance: float = 0.02
    saturation: float = 1.2
    length_share: float = 0.5
    usual_terms: float = 12.0


HYBRID = Recipe("hybrid")
MEANING = Recipe("meaning", meaning=1.0, words=0.0, importance=0.0)
WORDS = Recipe("words", meaning=0.0, words=1.0, importance=0.0)
RECIPES = {recipe.name: recipe for recipe in (HYBRID, MEANING, WORDS)}
