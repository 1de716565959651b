"""Answer questions about data in plain language. A question is read into a frame, and a frame is written as SQL."""
