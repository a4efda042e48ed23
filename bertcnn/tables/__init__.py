"""Reading labelled rows from files, and writing rows to files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.tables.cells import given_text as given_text
    from bertcnn.tables.cells import whole_number as whole_number
    from bertcnn.tables.column_names import find_name as find_name
    from bertcnn.tables.columns import ColumnChoice as ColumnChoice
    from bertcnn.tables.columns import Columns as Columns
    from bertcnn.tables.columns import as_in_training as as_in_training
    from bertcnn.tables.columns import columns_after_decision as columns_after_decision
    from bertcnn.tables.columns import free_names as free_names
    from bertcnn.tables.columns import guess_columns as guess_columns
    from bertcnn.tables.columns import guess_text_columns as guess_text_columns
    from bertcnn.tables.columns import id_columns as id_columns
    from bertcnn.tables.columns import join_texts as join_texts
    from bertcnn.tables.columns import latest_name as latest_name
    from bertcnn.tables.delimited import MAX_CELL_CHARACTERS as MAX_CELL_CHARACTERS
    from bertcnn.tables.dialect import detect_encoding as detect_encoding
    from bertcnn.tables.dialect import sample_bytes as sample_bytes
    from bertcnn.tables.formats import DELIMITED as DELIMITED
    from bertcnn.tables.formats import KNOWN_EXTENSIONS as KNOWN_EXTENSIONS
    from bertcnn.tables.formats import check_input as check_input
    from bertcnn.tables.formats import is_json as is_json
    from bertcnn.tables.formats import kind_of as kind_of
    from bertcnn.tables.formats import read_head as read_head
    from bertcnn.tables.formats import seems_to_be as seems_to_be
    from bertcnn.tables.formats import tables_in as tables_in
    from bertcnn.tables.formulas import unescape_formula as unescape_formula
    from bertcnn.tables.labelled import LabelledTable as LabelledTable
    from bertcnn.tables.labelled import note_left_out as note_left_out
    from bertcnn.tables.labelled import read_columns as read_columns
    from bertcnn.tables.labelled import read_labelled as read_labelled
    from bertcnn.tables.lines import LONGEST_LINE as LONGEST_LINE
    from bertcnn.tables.lines import TextFile as TextFile
    from bertcnn.tables.lines import undecodable as undecodable
    from bertcnn.tables.parquet import python_values as python_values
    from bertcnn.tables.rejects import rejects_of as rejects_of
    from bertcnn.tables.sinks import FormatLimitError as FormatLimitError
    from bertcnn.tables.sinks import check_fits_excel as check_fits_excel
    from bertcnn.tables.slices import slice_columns as slice_columns
    from bertcnn.tables.tables import Chunk as Chunk
    from bertcnn.tables.tables import Table as Table
    from bertcnn.tables.tables import TableReader as TableReader
    from bertcnn.tables.tables import check_outcome as check_outcome
    from bertcnn.tables.tables import column_position as column_position
    from bertcnn.tables.tables import list_columns as list_columns
    from bertcnn.tables.tables import open_table as open_table
    from bertcnn.tables.tables import read_table as read_table
    from bertcnn.tables.times import DateOrder as DateOrder
    from bertcnn.tables.times import TimeForm as TimeForm
    from bertcnn.tables.times import TimeSurvey as TimeSurvey
    from bertcnn.tables.writing import TableWriter as TableWriter
    from bertcnn.tables.writing import check_output as check_output
    from bertcnn.tables.writing import explained as explained

__getattr__, __dir__, __all__ = door(__name__)
