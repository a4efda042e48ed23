"""Computed weight shapes, compared with those of real networks."""

from bertcnn.models.bert import Bert
from bertcnn.models.classifier import build_classifier
from bertcnn.models.pretraining import BertPretraining
from bertcnn.models.token_scores import BertQuestionAnswering
from bertcnn.settings import EncoderSettings, HeadSettings
from bertcnn.shapes import (
    classifier_shapes,
    encoder_shapes,
    pretraining_shapes,
    question_answering_shapes,
)

ENCODER = EncoderSettings(
    vocabulary_size=20,
    width=8,
    layers=3,
    heads=2,
    feed_forward_width=12,
    max_positions=7,
    segment_types=2,
)


def shapes_of(model):
    return {weight.path: tuple(weight.shape) for weight in model.weights}


def test_computed_shapes_equal_those_of_the_encoder_and_its_heads():
    model = BertPretraining(Bert(ENCODER, name="bert"))
    assert pretraining_shapes(ENCODER) == shapes_of(model)
    without_pooler = {
        name: shape for name, shape in shapes_of(Bert(ENCODER)).items() if "pooler" not in name
    }
    assert encoder_shapes(ENCODER) == without_pooler


def test_computed_shapes_equal_those_of_question_answering():
    shapes = shapes_of(BertQuestionAnswering(Bert(ENCODER)))
    assert question_answering_shapes(ENCODER) == {
        name: shape for name, shape in shapes.items() if "pooler" not in name
    }


def test_computed_shapes_equal_those_of_the_classifier():
    head = HeadSettings(window_sizes=(2, 3), filters=6)
    assert classifier_shapes(ENCODER, head, 5) == shapes_of(build_classifier(ENCODER, head, 5))
