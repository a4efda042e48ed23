"""One path to an answer: engines, the predictor and its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.inference.answers import Answers as Answers
    from bertcnn.inference.answers import Phrase as Phrase
    from bertcnn.inference.answers import Prediction as Prediction
    from bertcnn.inference.answers import no_reasons as no_reasons
    from bertcnn.inference.attribution import AttentionMaps as AttentionMaps
    from bertcnn.inference.attribution import Attribution as Attribution
    from bertcnn.inference.attribution import attention_weights as attention_weights
    from bertcnn.inference.attribution import attribute as attribute
    from bertcnn.inference.compiled import compiled_model as compiled_model
    from bertcnn.inference.compiled import cpu_flags as cpu_flags
    from bertcnn.inference.compiled import has_bfloat16 as has_bfloat16
    from bertcnn.inference.compiled import has_fast_int8 as has_fast_int8
    from bertcnn.inference.compiled import has_vnni as has_vnni
    from bertcnn.inference.compiled import read_ahead as read_ahead
    from bertcnn.inference.cores import CORES as CORES
    from bertcnn.inference.cores import usable_cores as usable_cores
    from bertcnn.inference.decide import held_back as held_back
    from bertcnn.inference.embeddings import Embed as Embed
    from bertcnn.inference.embeddings import Store as Store
    from bertcnn.inference.embeddings import mean_embeddings as mean_embeddings
    from bertcnn.inference.engines import Engine as Engine
    from bertcnn.inference.engines import EngineName as EngineName
    from bertcnn.inference.engines import EngineOutput as EngineOutput
    from bertcnn.inference.engines import StreamingEngine as StreamingEngine
    from bertcnn.inference.engines import check_engine as check_engine
    from bertcnn.inference.engines import reason as reason
    from bertcnn.inference.evidence import Explanation as Explanation
    from bertcnn.inference.evidence import because as because
    from bertcnn.inference.keras_embeddings import fastest_embed as fastest_embed
    from bertcnn.inference.keras_embeddings import keras_embed as keras_embed
    from bertcnn.inference.keras_engine import KerasEngine as KerasEngine
    from bertcnn.inference.keras_engine import classifier_of as classifier_of
    from bertcnn.inference.onnx_graph import classifier_onnx as classifier_onnx
    from bertcnn.inference.openvino_engine import engine_graph as engine_graph
    from bertcnn.inference.openvino_engine import token_embeddings as token_embeddings
    from bertcnn.inference.openvino_graph import encoder_graph as encoder_graph
    from bertcnn.inference.openvino_graph import one_text_a_row as one_text_a_row
    from bertcnn.inference.openvino_graph import spans_graph as spans_graph
    from bertcnn.inference.output_layer import read_output_layer as read_output_layer
    from bertcnn.inference.predictor import Predictor as Predictor
    from bertcnn.inference.predictor import load as load
    from bertcnn.inference.predictor import loaded as loaded
    from bertcnn.inference.predictor import not_pickled as not_pickled
    from bertcnn.inference.predictor import place_of_label as place_of_label
    from bertcnn.inference.quantization import CALIBRATION_ROWS as CALIBRATION_ROWS
    from bertcnn.inference.quantization import QuantizationData as QuantizationData
    from bertcnn.inference.quantization import build_engine as build_engine
    from bertcnn.inference.quantization import quantize as quantize
    from bertcnn.inference.quantization import spread as spread
    from bertcnn.inference.reasons import describe_reason as describe_reason
    from bertcnn.inference.runtime import ov as ov
    from bertcnn.inference.served_engine import ServedEngine as ServedEngine
    from bertcnn.inference.spans_engine import SpansEngine as SpansEngine
    from bertcnn.inference.spans_engine import SpansModel as SpansModel
    from bertcnn.inference.spans_engine import packed_windows as packed_windows

__getattr__, __dir__, __all__ = door(__name__)
