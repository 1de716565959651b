"""Compare Everhold with mem0, Chroma and LangGraph's store on the same texts and vectors, in the same run."""
