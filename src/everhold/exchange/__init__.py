"""Export and import data, and move a store into another one."""
