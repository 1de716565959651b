"""Code shared by all interfaces: JSON documents, parsing of inputs and times, errors."""
