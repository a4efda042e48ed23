"""From labelled token ids to trained weights."""
