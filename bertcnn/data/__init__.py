"""Rows for the network: labels, splits, batches and packing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.data.batches import Batch as Batch
    from bertcnn.data.batches import BatchPlan as BatchPlan
    from bertcnn.data.batches import choose_lengths as choose_lengths
    from bertcnn.data.batches import pad as pad
    from bertcnn.data.batches import plan_full as plan_full
    from bertcnn.data.batches import plan_scoring as plan_scoring
    from bertcnn.data.batches import plan_training as plan_training
    from bertcnn.data.batches import prefetch as prefetch
    from bertcnn.data.hashing import splitmix64 as splitmix64
    from bertcnn.data.hierarchy import LEVELS as LEVELS
    from bertcnn.data.hierarchy import LONGEST_SEPARATOR as LONGEST_SEPARATOR
    from bertcnn.data.hierarchy import MOST_LEVELS as MOST_LEVELS
    from bertcnn.data.hierarchy import Hierarchy as Hierarchy
    from bertcnn.data.hierarchy import check_levels as check_levels
    from bertcnn.data.hierarchy import describe_levels as describe_levels
    from bertcnn.data.label_cells import known_sets as known_sets
    from bertcnn.data.label_cells import read_label_column as read_label_column
    from bertcnn.data.label_names import label_text as label_text
    from bertcnn.data.label_names import look_alikes as look_alikes
    from bertcnn.data.label_names import similar_names as similar_names
    from bertcnn.data.label_names import spellings as spellings
    from bertcnn.data.label_sets import AUTO as AUTO
    from bertcnn.data.label_sets import NO as NO
    from bertcnn.data.label_sets import LabelSet as LabelSet
    from bertcnn.data.label_sets import between as between
    from bertcnn.data.label_sets import indicators as indicators
    from bertcnn.data.label_sets import is_set as is_set
    from bertcnn.data.label_sets import join_labels as join_labels
    from bertcnn.data.label_sets import labels_of_sets as labels_of_sets
    from bertcnn.data.label_sets import names_in as names_in
    from bertcnn.data.label_sets import numbered as numbered
    from bertcnn.data.label_sets import rarest as rarest
    from bertcnn.data.label_sets import separator_for as separator_for
    from bertcnn.data.label_sets import split_cell as split_cell
    from bertcnn.data.labels import check_labels as check_labels
    from bertcnn.data.labels import check_one_type as check_one_type
    from bertcnn.data.labels import checked_labels as checked_labels
    from bertcnn.data.out_of_scope import find_labels as find_labels
    from bertcnn.data.packing import NUMBERS as NUMBERS
    from bertcnn.data.packing import PACKED as PACKED
    from bertcnn.data.packing import POSITION_SEGMENTS as POSITION_SEGMENTS
    from bertcnn.data.packing import PackedPlan as PackedPlan
    from bertcnn.data.packing import Packing as Packing
    from bertcnn.data.packing import lay_out as lay_out
    from bertcnn.data.packing import pack as pack
    from bertcnn.data.packing import packed_batches as packed_batches
    from bertcnn.data.packing import places as places
    from bertcnn.data.packing import plan_packed as plan_packed
    from bertcnn.data.packing import position_segments as position_segments
    from bertcnn.data.rare_labels import MergedLabels as MergedLabels
    from bertcnn.data.rare_labels import merge_rare as merge_rare
    from bertcnn.data.same_labels import KnownLabels as KnownLabels
    from bertcnn.data.same_labels import describe_spellings as describe_spellings
    from bertcnn.data.same_labels import one_spelling as one_spelling
    from bertcnn.data.shape_buckets import Shape as Shape
    from bertcnn.data.shape_buckets import fixed_shapes as fixed_shapes
    from bertcnn.data.shape_buckets import plan_fixed as plan_fixed
    from bertcnn.data.splits import assign_folds as assign_folds
    from bertcnn.data.splits import duplicate_key as duplicate_key
    from bertcnn.data.splits import split_validation as split_validation
    from bertcnn.data.splits import stratified_part as stratified_part

__getattr__, __dir__, __all__ = door(__name__)
