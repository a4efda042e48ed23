"""The peers: run in their own environment, from which nothing of `bertcnn` can be imported."""
