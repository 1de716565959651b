"""The boundary of the public verbs: every argument is checked before a verb's body runs.

`check_verbs` decorates a class. It reads the signature of each public method once and makes a check of each annotation,
so a new verb is checked without a line of its own. Types are strict: "5" is not a number, True is not a number, and
None is accepted only where the annotation says so. docs/limits.md lists the limits.

`log_as` decorates a verb. It names the operation under which the access log records failed calls of the verb.

An exception that an argument's own code raises, such as a generator's, is the caller's and passes unchanged.
"""
