"""The operation under which the access log has a call of each verb that was refused for its arguments."""

_VERBS = {
    "create": ("remember", "remember_many", "say"),
    "read": ("get", "list", "history", "relations", "messages", "session", "sessions"),
    "search": ("recall", "context", "why_not"),
    "update": (
        "revise", "supersede", "undo", "merge_duplicates", "relate", "tag", "untag", "update_session", "end_session",
    ),
    "delete": ("forget", "forget_where"),
}  # fmt: skip

FAILURES = {verb: operation for operation, verbs in _VERBS.items() for verb in verbs}
