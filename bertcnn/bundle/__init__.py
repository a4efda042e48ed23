"""A model on disk: its folder, its seal, its compiled engine, and its scope."""
