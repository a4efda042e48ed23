"""Statistics of a deployed model: audits, comparisons, drift, topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.review.statistics.agreement import Agreement as Agreement
    from bertcnn.review.statistics.agreement import AgreementReport as AgreementReport
    from bertcnn.review.statistics.agreement import measure_agreement as measure_agreement
    from bertcnn.review.statistics.audit import AuditedAccuracy as AuditedAccuracy
    from bertcnn.review.statistics.audit import Stratum as Stratum
    from bertcnn.review.statistics.audit import accuracy_by_label as accuracy_by_label
    from bertcnn.review.statistics.audit import audit_accuracy as audit_accuracy
    from bertcnn.review.statistics.audit import audits_needed as audits_needed
    from bertcnn.review.statistics.audit import is_audited as is_audited
    from bertcnn.review.statistics.audit import uniform_number as uniform_number
    from bertcnn.review.statistics.comparison import Answers as Answers
    from bertcnn.review.statistics.comparison import Comparison as Comparison
    from bertcnn.review.statistics.comparison import compare as compare
    from bertcnn.review.statistics.drift import CONFIDENCE_EDGES as CONFIDENCE_EDGES
    from bertcnn.review.statistics.drift import LENGTH_EDGES as LENGTH_EDGES
    from bertcnn.review.statistics.drift import DailyFigures as DailyFigures
    from bertcnn.review.statistics.drift import DriftFinding as DriftFinding
    from bertcnn.review.statistics.drift import DriftReport as DriftReport
    from bertcnn.review.statistics.drift import drift_report as drift_report
    from bertcnn.review.statistics.selection import cold_start_order as cold_start_order
    from bertcnn.review.statistics.selection import review_order as review_order
    from bertcnn.review.statistics.sequential import AccuracyWatch as AccuracyWatch
    from bertcnn.review.statistics.sequential import watch_accuracy as watch_accuracy
    from bertcnn.review.statistics.topics import Topic as Topic
    from bertcnn.review.statistics.topics import find_topics as find_topics
    from bertcnn.review.statistics.topics import suggest_labels as suggest_labels
    from bertcnn.review.statistics.word_frequencies import NewWord as NewWord
    from bertcnn.review.statistics.word_frequencies import new_words as new_words

__getattr__, __dir__, __all__ = door(__name__)
