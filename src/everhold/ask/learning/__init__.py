"""What confirmed answers teach: query patterns, aliases, metrics and preferred joins."""
