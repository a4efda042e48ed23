"""Accuracy and speed compared with named peers: same rows, same machine, alternating rounds."""
