"""Taking everything out, and bringing it in."""
