"""Ways to reach the engine from outside: thin, they parse, call and show."""
