"""Training on the word pieces that occur."""

from bertcnn.training.vocabulary_pruning import on_used_pieces


def test_the_smaller_encoder_computes_in_the_precision_that_is_asked_for(make_rows, tiny_encoder):
    encoder, token_ids = tiny_encoder(), make_rows(6, 0).token_ids
    small, _ = on_used_pieces(encoder, token_ids, 0.0, policy="mixed_bfloat16")
    layer = small.get_layer("layer_0")
    assert (layer.compute_dtype, layer.variable_dtype) == ("bfloat16", "float32")
    small, _ = on_used_pieces(encoder, token_ids, 0.0)
    assert small.get_layer("layer_0").compute_dtype == "float32"
