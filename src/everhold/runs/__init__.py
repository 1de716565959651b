"""Runs of agents and programs that survive a crash: their cycles, their history and what was learned from them."""
