"""Read the words of a question: tokens, numbers, periods and the cues of the grammar."""
