"""The access log: who did what, when, and whether anybody has tampered with the record of it."""
