"""Write memories: add, revise, supersede, merge, relate, tag and forget them, and undo changes."""
