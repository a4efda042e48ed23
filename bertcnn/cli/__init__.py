"""The commands: thin doors onto functions."""
