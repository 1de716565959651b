"""A language model as a further source of readings: the prompt, what is read from answers, and the checks on it."""
