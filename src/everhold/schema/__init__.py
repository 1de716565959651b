"""The storage of entities, defined once for all stores: tables, lookups, codecs, changes."""
