"""Metrics, calibration, decisions, and out-of-scope detection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.evaluation.calibration import CalibrationFigures as CalibrationFigures
    from bertcnn.evaluation.calibration import ReliabilityBin as ReliabilityBin
    from bertcnn.evaluation.calibration import compare_calibration as compare_calibration
    from bertcnn.evaluation.calibration import fit_temperature as fit_temperature
    from bertcnn.evaluation.calibration import reliability as reliability
    from bertcnn.evaluation.decisions import Automation as Automation
    from bertcnn.evaluation.decisions import HeldBack as HeldBack
    from bertcnn.evaluation.decisions import automation as automation
    from bertcnn.evaluation.decisions import check_targets as check_targets
    from bertcnn.evaluation.decisions import decide as decide
    from bertcnn.evaluation.decisions import describe_decisions as describe_decisions
    from bertcnn.evaluation.decisions import describe_held_out as describe_held_out
    from bertcnn.evaluation.decisions import describe_out_of_scope as describe_out_of_scope
    from bertcnn.evaluation.decisions import describe_promise as describe_promise
    from bertcnn.evaluation.intervals import wilson as wilson
    from bertcnn.evaluation.label_shift import LabelShift as LabelShift
    from bertcnn.evaluation.label_shift import ShiftCalibration as ShiftCalibration
    from bertcnn.evaluation.label_shift import estimate_label_shares as estimate_label_shares
    from bertcnn.evaluation.label_shift import estimate_label_shift as estimate_label_shift
    from bertcnn.evaluation.limit_analysis import automation_limits as automation_limits
    from bertcnn.evaluation.limit_analysis import saved_limits as saved_limits
    from bertcnn.evaluation.metrics import LARGEST_MATRIX as LARGEST_MATRIX
    from bertcnn.evaluation.metrics import Evaluation as Evaluation
    from bertcnn.evaluation.metrics import OutOfScopeRows as OutOfScopeRows
    from bertcnn.evaluation.metrics import describe_unknown as describe_unknown
    from bertcnn.evaluation.metrics import evaluate as evaluate
    from bertcnn.evaluation.metrics import evaluate_sets as evaluate_sets
    from bertcnn.evaluation.metrics import find_unknown as find_unknown
    from bertcnn.evaluation.metrics import macro_f1_score as macro_f1_score
    from bertcnn.evaluation.no_information import NoInformation as NoInformation
    from bertcnn.evaluation.no_information import against_constant as against_constant
    from bertcnn.evaluation.no_information import against_constant_sets as against_constant_sets
    from bertcnn.evaluation.no_information import fair_answers as fair_answers
    from bertcnn.evaluation.no_information import most_frequent as most_frequent
    from bertcnn.evaluation.no_information import saved_warning as saved_warning
    from bertcnn.evaluation.no_information import usual_answer as usual_answer
    from bertcnn.evaluation.out_of_scope import FEWEST_ROWS as FEWEST_ROWS
    from bertcnn.evaluation.out_of_scope import DetectorFit as DetectorFit
    from bertcnn.evaluation.out_of_scope import FoldInputs as FoldInputs
    from bertcnn.evaluation.out_of_scope import OutsideTexts as OutsideTexts
    from bertcnn.evaluation.out_of_scope import background_texts as background_texts
    from bertcnn.evaluation.out_of_scope import fit_detector as fit_detector
    from bertcnn.evaluation.out_of_scope import refit_detector as refit_detector
    from bertcnn.evaluation.out_of_scope import rows_to_know as rows_to_know
    from bertcnn.evaluation.out_of_scope import with_limits as with_limits
    from bertcnn.evaluation.paired import ONE_SIDED as ONE_SIDED
    from bertcnn.evaluation.paired import TWO_SIDED as TWO_SIDED
    from bertcnn.evaluation.paired import LostLabel as LostLabel
    from bertcnn.evaluation.paired import Pair as Pair
    from bertcnn.evaluation.paired import PairedDifference as PairedDifference
    from bertcnn.evaluation.paired import bootstrap as bootstrap
    from bertcnn.evaluation.paired import lost_labels as lost_labels
    from bertcnn.evaluation.paired import mid_p as mid_p
    from bertcnn.evaluation.paired import net_change as net_change
    from bertcnn.evaluation.paired import p_value as p_value
    from bertcnn.evaluation.paired import paired_difference as paired_difference
    from bertcnn.evaluation.paired import share_differing as share_differing
    from bertcnn.evaluation.probabilities import (
        calibrated_probabilities as calibrated_probabilities,
    )
    from bertcnn.evaluation.probabilities import chosen as chosen
    from bertcnn.evaluation.probabilities import exact_match_probability as exact_match_probability
    from bertcnn.evaluation.probabilities import names_of as names_of
    from bertcnn.evaluation.probabilities import softmax as softmax
    from bertcnn.evaluation.scored_predictions import GroundTruth as GroundTruth
    from bertcnn.evaluation.scored_predictions import ScoredPredictions as ScoredPredictions
    from bertcnn.evaluation.scored_predictions import label_shares as label_shares
    from bertcnn.evaluation.thresholds import fewest_rows as fewest_rows

__getattr__, __dir__, __all__ = door(__name__)
