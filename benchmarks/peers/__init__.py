"""The peers: run in their own environment, where `bertcnn` cannot be imported."""
