"""What turns batches of token ids into logits when a model is used."""
