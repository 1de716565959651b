"""Search indexes for stores without indexes of their own."""
