"""The parts of the network, in `keras.ops` only."""
