"""Scores tables of any size: the same table with answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.scoring.batches import BatchScorer as BatchScorer
    from bertcnn.scoring.batches import score_frame as score_frame
    from bertcnn.scoring.databases import score_table as score_table
    from bertcnn.scoring.folders import FolderReport as FolderReport
    from bertcnn.scoring.folders import Shard as Shard
    from bertcnn.scoring.folders import score_folder as score_folder
    from bertcnn.scoring.journal import DIGEST_BYTES as DIGEST_BYTES
    from bertcnn.scoring.journal import InputState as InputState
    from bertcnn.scoring.journal import Journal as Journal
    from bertcnn.scoring.journal import RunHeader as RunHeader
    from bertcnn.scoring.options import FileKeywords as FileKeywords
    from bertcnn.scoring.options import FileOptions as FileOptions
    from bertcnn.scoring.options import ScoringOptions as ScoringOptions
    from bertcnn.scoring.run import FileRun as FileRun
    from bertcnn.scoring.run import ScoringInterrupted as ScoringInterrupted
    from bertcnn.scoring.run import begin_journal as begin_journal
    from bertcnn.scoring.run import resumed as resumed
    from bertcnn.scoring.score import ScoringReport as ScoringReport
    from bertcnn.scoring.score import score_csv as score_csv

__getattr__, __dir__, __all__ = door(__name__)
