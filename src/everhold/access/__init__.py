"""The access log: who did what and when, and whether the log was tampered with."""
