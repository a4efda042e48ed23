"""Question answering: finds the answer to a question in a text, or that the text has none."""
