"""What the capabilities need from outside: small Protocols and their value types."""
