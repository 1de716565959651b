"""Parts for stores that lack them."""
