"""What every interface shares: JSON documents, inputs as they are written, times and errors. No terminal, no server."""
