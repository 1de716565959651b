"""Link the words of a question to tables, columns and values."""
