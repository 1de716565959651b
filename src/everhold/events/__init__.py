"""Events: the changes that a scope may see, in order, for programs."""
