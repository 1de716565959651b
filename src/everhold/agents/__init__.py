"""The agents of an organization: identity, state, and agent files."""
