"""How entities are stored, once for all stores: tables, lookups, codecs, changes."""
