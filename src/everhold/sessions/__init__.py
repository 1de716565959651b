"""Sessions, their conversations and their messages."""
