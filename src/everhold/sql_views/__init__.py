"""Install, list and remove SQL views with the names of other memory systems."""
