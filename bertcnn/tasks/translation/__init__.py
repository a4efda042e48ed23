"""Translation: from pairs of texts to a model that writes one for the other."""
