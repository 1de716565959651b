"""SQL views with the table and column names of other memory systems, declared as data, and their compiler."""
