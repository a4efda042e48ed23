"""Files and folders that appear completely or not at all, even if the process is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.storage.cache import cache_folder as cache_folder
    from bertcnn.storage.cache import keep as keep
    from bertcnn.storage.cache import read_kept as read_kept
    from bertcnn.storage.files import DISK_FULL as DISK_FULL
    from bertcnn.storage.files import LARGEST_MANIFEST as LARGEST_MANIFEST
    from bertcnn.storage.files import MORE_ROOM as MORE_ROOM
    from bertcnn.storage.files import NAME_CHARACTERS as NAME_CHARACTERS
    from bertcnn.storage.files import as_json as as_json
    from bertcnn.storage.files import check_file_target as check_file_target
    from bertcnn.storage.files import check_outside_models as check_outside_models
    from bertcnn.storage.files import check_regular as check_regular
    from bertcnn.storage.files import companion as companion
    from bertcnn.storage.files import excess as excess
    from bertcnn.storage.files import expanded as expanded
    from bertcnn.storage.files import give_name as give_name
    from bertcnn.storage.files import open_regular as open_regular
    from bertcnn.storage.files import output_error as output_error
    from bertcnn.storage.files import read_text as read_text
    from bertcnn.storage.files import reserve as reserve
    from bertcnn.storage.files import sha256_of as sha256_of
    from bertcnn.storage.files import sync_folder as sync_folder
    from bertcnn.storage.files import try_lock as try_lock
    from bertcnn.storage.files import unreadable as unreadable
    from bertcnn.storage.files import write_new as write_new
    from bertcnn.storage.files import write_whole as write_whole
    from bertcnn.storage.folders import BusyError as BusyError
    from bertcnn.storage.folders import check_replaceable as check_replaceable
    from bertcnn.storage.folders import check_target as check_target
    from bertcnn.storage.folders import clean_leftovers as clean_leftovers
    from bertcnn.storage.folders import held_folder as held_folder
    from bertcnn.storage.folders import is_debris as is_debris
    from bertcnn.storage.folders import new_folder as new_folder
    from bertcnn.storage.folders import put_in_place as put_in_place
    from bertcnn.storage.folders import real_folder as real_folder
    from bertcnn.storage.folders import resting_place as resting_place
    from bertcnn.storage.folders import work_folder as work_folder
    from bertcnn.storage.hub import ANSWER_SECONDS as ANSWER_SECONDS
    from bertcnn.storage.hub import hub_endpoint as hub_endpoint
    from bertcnn.storage.hub import hub_is_offline as hub_is_offline
    from bertcnn.storage.hub import hub_pieces as hub_pieces
    from bertcnn.storage.hub import hub_response as hub_response
    from bertcnn.storage.hub import hub_seconds as hub_seconds
    from bertcnn.storage.hub import quiet_library as quiet_library
    from bertcnn.storage.manifest import MANIFEST as MANIFEST
    from bertcnn.storage.manifest import FileRecord as FileRecord
    from bertcnn.storage.manifest import FolderFormat as FolderFormat
    from bertcnn.storage.manifest import Manifest as Manifest
    from bertcnn.storage.manifest import Member as Member
    from bertcnn.storage.manifest import SettingsType as SettingsType
    from bertcnn.storage.manifest import canonical_json as canonical_json
    from bertcnn.storage.manifest import check_saved_target as check_saved_target
    from bertcnn.storage.manifest import object_of as object_of
    from bertcnn.storage.manifest import parse_json as parse_json
    from bertcnn.storage.manifest import parse_manifest as parse_manifest
    from bertcnn.storage.manifest import read_members as read_members
    from bertcnn.storage.manifest import refuse as refuse
    from bertcnn.storage.manifest import settings_of as settings_of
    from bertcnn.storage.manifest import write_manifest as write_manifest

__getattr__, __dir__, __all__ = door(__name__)
