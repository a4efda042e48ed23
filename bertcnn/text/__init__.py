"""Text to token ids, and nothing else."""
