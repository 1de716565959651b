"""Everhold beside mem0, Chroma and LangGraph's store: the same texts, the same vectors, the same run."""
