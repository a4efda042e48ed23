"""Other tasks of the same layers."""
