"""The saved model: its members, its compiled engine, and its out-of-scope detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.bundle.bundle import Bundle as Bundle
    from bertcnn.bundle.bundle import check_bundle_target as check_bundle_target
    from bertcnn.bundle.bundle import check_room_for_labels as check_room_for_labels
    from bertcnn.bundle.bundle import read_bundle as read_bundle
    from bertcnn.bundle.bundle import read_config as read_config
    from bertcnn.bundle.bundle import read_id as read_id
    from bertcnn.bundle.bundle import read_metrics as read_metrics
    from bertcnn.bundle.bundle import with_weights as with_weights
    from bertcnn.bundle.bundle import write_bundle as write_bundle
    from bertcnn.bundle.checks import hierarchy_of as hierarchy_of
    from bertcnn.bundle.engine import ENGINE as ENGINE
    from bertcnn.bundle.engine import INT8_TENSORS as INT8_TENSORS
    from bertcnn.bundle.engine import EngineRecord as EngineRecord
    from bertcnn.bundle.engine import Precision as Precision
    from bertcnn.bundle.engine import SavedEngine as SavedEngine
    from bertcnn.bundle.engine import WeightBits as WeightBits
    from bertcnn.bundle.engine import engine_in_memory as engine_in_memory
    from bertcnn.bundle.engine import int8_bytes as int8_bytes
    from bertcnn.bundle.engine import parse_int8 as parse_int8
    from bertcnn.bundle.engine import read_engine as read_engine
    from bertcnn.bundle.model_cache import keep_model as keep_model
    from bertcnn.bundle.places import MissingError as MissingError
    from bertcnn.bundle.places import ModelFiles as ModelFiles
    from bertcnn.bundle.places import described as described
    from bertcnn.bundle.places import sent_pieces as sent_pieces
    from bertcnn.bundle.places import verified as verified
    from bertcnn.bundle.remote import local_folder as local_folder
    from bertcnn.bundle.remote import push_model as push_model
    from bertcnn.bundle.schemas import BundleConfig as BundleConfig
    from bertcnn.bundle.schemas import Calibration as Calibration
    from bertcnn.bundle.schemas import Decisions as Decisions
    from bertcnn.bundle.schemas import HeldOut as HeldOut
    from bertcnn.bundle.schemas import HeldOutParents as HeldOutParents
    from bertcnn.bundle.schemas import LabelShiftCalibration as LabelShiftCalibration
    from bertcnn.bundle.schemas import Temperature as Temperature
    from bertcnn.bundle.scope import BACKGROUND as BACKGROUND
    from bertcnn.bundle.scope import PARTS as PARTS
    from bertcnn.bundle.scope import DetectorInputs as DetectorInputs
    from bertcnn.bundle.scope import OutOfScopeDetector as OutOfScopeDetector
    from bertcnn.bundle.scope import Strangeness as Strangeness
    from bertcnn.bundle.scope import unit as unit
    from bertcnn.bundle.tensors import check_tensors as check_tensors
    from bertcnn.bundle.tensors import parse_tensors as parse_tensors
    from bertcnn.bundle.tensors import read_header as read_header

__getattr__, __dir__, __all__ = door(__name__)
