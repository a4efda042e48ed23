"""The data doctor: what is wrong with a file of texts and labels, before anybody trains on it."""
