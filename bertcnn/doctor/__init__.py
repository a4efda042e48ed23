"""The data doctor: what is wrong with a labelled file, before anybody trains on it."""
