"""Conversations: what is said in a session, and the session itself."""
