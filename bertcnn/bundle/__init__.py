"""The saved model: its members, its compiled engine, and its out-of-scope detector."""
