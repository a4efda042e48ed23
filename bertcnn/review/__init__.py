"""Human review of tickets: the store, the queue, decisions, audits, promotion of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.review.audits import AuditReport as AuditReport
    from bertcnn.review.audits import audit_report as audit_report
    from bertcnn.review.checked_answers import WrongAnswer as WrongAnswer
    from bertcnn.review.checked_answers import draw_more_audits as draw_more_audits
    from bertcnn.review.checked_answers import wrong_answers as wrong_answers
    from bertcnn.review.column_filters import column_values as column_values
    from bertcnn.review.comparing import compare_models as compare_models
    from bertcnn.review.comparing import hashes_of as hashes_of
    from bertcnn.review.corrected_rows import export_corrections as export_corrections
    from bertcnn.review.daily_figures import newest_day as newest_day
    from bertcnn.review.decisions import Kind as Kind
    from bertcnn.review.decisions import LastDecision as LastDecision
    from bertcnn.review.decisions import NewDecision as NewDecision
    from bertcnn.review.decisions import Recorded as Recorded
    from bertcnn.review.decisions import decided as decided
    from bertcnn.review.decisions import disagreements as disagreements
    from bertcnn.review.decisions import history as history
    from bertcnn.review.decisions import last_decisions as last_decisions
    from bertcnn.review.decisions import record as record
    from bertcnn.review.files import add_file as add_file
    from bertcnn.review.files import label_file as label_file
    from bertcnn.review.files import serving_predictor as serving_predictor
    from bertcnn.review.health import StoreDrift as StoreDrift
    from bertcnn.review.health import drift_report as drift_report
    from bertcnn.review.health import last_changes as last_changes
    from bertcnn.review.labels import LabelGuide as LabelGuide
    from bertcnn.review.labels import LabelsInUse as LabelsInUse
    from bertcnn.review.labels import add_labels as add_labels
    from bertcnn.review.labels import guide as guide
    from bertcnn.review.labels import label_guide as label_guide
    from bertcnn.review.labels import labels_in_use as labels_in_use
    from bertcnn.review.labels import remove_label as remove_label
    from bertcnn.review.labels import set_guide as set_guide
    from bertcnn.review.labels import write_guide as write_guide
    from bertcnn.review.models import WORSE as WORSE
    from bertcnn.review.models import KnownModel as KnownModel
    from bertcnn.review.models import ModelEvent as ModelEvent
    from bertcnn.review.models import add_model as add_model
    from bertcnn.review.models import earlier_model as earlier_model
    from bertcnn.review.models import find_model as find_model
    from bertcnn.review.models import last_comparison as last_comparison
    from bertcnn.review.models import list_models as list_models
    from bertcnn.review.models import model_history as model_history
    from bertcnn.review.models import promote as promote
    from bertcnn.review.models import roll_back as roll_back
    from bertcnn.review.models import serving_model as serving_model
    from bertcnn.review.new_topics import StoreTopic as StoreTopic
    from bertcnn.review.new_topics import StoreTopics as StoreTopics
    from bertcnn.review.new_topics import read_texts as read_texts
    from bertcnn.review.new_topics import store_topics as store_topics
    from bertcnn.review.people import Person as Person
    from bertcnn.review.people import Role as Role
    from bertcnn.review.people import find_person as find_person
    from bertcnn.review.people import own_name as own_name
    from bertcnn.review.people import read_people as read_people
    from bertcnn.review.queue import BATCH as BATCH
    from bertcnn.review.queue import FEW as FEW
    from bertcnn.review.queue import LEASE as LEASE
    from bertcnn.review.queue import RENEW as RENEW
    from bertcnn.review.queue import LeasedTicket as LeasedTicket
    from bertcnn.review.queue import Note as Note
    from bertcnn.review.queue import QueueView as QueueView
    from bertcnn.review.queue import claim as claim
    from bertcnn.review.queue import open_ticket as open_ticket
    from bertcnn.review.queue import release as release
    from bertcnn.review.queue import renew as renew
    from bertcnn.review.queue import waiting_tickets as waiting_tickets
    from bertcnn.review.retraining import retrain as retrain
    from bertcnn.review.shadow import ShadowReport as ShadowReport
    from bertcnn.review.shadow import shadow_report as shadow_report
    from bertcnn.review.similarity import similar as similar
    from bertcnn.review.starting import TicketGroup as TicketGroup
    from bertcnn.review.starting import name_groups as name_groups
    from bertcnn.review.starting import start_review as start_review
    from bertcnn.review.starting import ticket_groups as ticket_groups
    from bertcnn.review.store import ReviewStore as ReviewStore
    from bertcnn.review.store import now as now
    from bertcnn.review.store import open_review as open_review
    from bertcnn.review.ticket_list import ListedTicket as ListedTicket
    from bertcnn.review.ticket_list import TicketCounts as TicketCounts
    from bertcnn.review.ticket_list import TicketPage as TicketPage
    from bertcnn.review.ticket_list import TicketView as TicketView
    from bertcnn.review.ticket_list import count_tickets as count_tickets
    from bertcnn.review.ticket_list import list_tickets as list_tickets
    from bertcnn.review.tickets import NewTicket as NewTicket
    from bertcnn.review.tickets import add_tickets as add_tickets
    from bertcnn.review.tickets import answer_waiting as answer_waiting
    from bertcnn.review.tickets import erase_ticket as erase_ticket
    from bertcnn.review.tickets import find_ticket as find_ticket
    from bertcnn.review.tickets import name_of as name_of
    from bertcnn.review.tickets import number_of as number_of
    from bertcnn.review.training_files import TrainingFile as TrainingFile
    from bertcnn.review.training_files import training_file as training_file
    from bertcnn.review.uploads import Upload as Upload
    from bertcnn.review.uploads import list_uploads as list_uploads

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
