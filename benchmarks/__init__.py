"""Speed beside named peers, each figure a ratio of two runs that took turns on one machine."""
