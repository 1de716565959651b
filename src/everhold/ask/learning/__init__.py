"""Learn query patterns, aliases, metrics and preferred joins from confirmed answers."""
