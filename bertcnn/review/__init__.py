"""What people decide on tickets: the store, the queue, audits, promotion of models.

The names load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertcnn.review.audits import audit_report
    from bertcnn.review.comparing import compare_models
    from bertcnn.review.corrected_rows import corrections, export_corrections, hold_out_rows
    from bertcnn.review.decisions import NewDecision, decided, disagreements, history, record
    from bertcnn.review.files import add_file, label_file, serving_predictor
    from bertcnn.review.health import drift_report
    from bertcnn.review.labels import (
        add_labels,
        guide,
        labels_in_use,
        remove_label,
        write_guide,
    )
    from bertcnn.review.models import (
        add_model,
        earlier_model,
        find_model,
        last_comparison,
        list_models,
        model_history,
        promote,
        roll_back,
        serving_model,
    )
    from bertcnn.review.new_topics import store_topics
    from bertcnn.review.people import Person, find_person, read_people
    from bertcnn.review.queue import claim, release, renew, waiting_tickets
    from bertcnn.review.retraining import retrain
    from bertcnn.review.shadow import answer_in_shadow, shadow_report
    from bertcnn.review.similarity import label_group, similar
    from bertcnn.review.starting import name_groups, start_review, ticket_groups
    from bertcnn.review.store import ReviewStore, open_review
    from bertcnn.review.tickets import (
        NewTicket,
        add_tickets,
        answer_waiting,
        erase_ticket,
        find_ticket,
    )

_HOMES = {
    "audits": ("audit_report",),
    "comparing": ("compare_models",),
    "corrected_rows": ("corrections", "export_corrections", "hold_out_rows"),
    "decisions": ("NewDecision", "decided", "disagreements", "history", "record"),
    "files": ("add_file", "label_file", "serving_predictor"),
    "health": ("drift_report",),
    "labels": ("add_labels", "guide", "labels_in_use", "remove_label", "write_guide"),
    "models": (
        "add_model",
        "earlier_model",
        "find_model",
        "last_comparison",
        "list_models",
        "model_history",
        "promote",
        "roll_back",
        "serving_model",
    ),
    "new_topics": ("store_topics",),
    "people": ("Person", "find_person", "read_people"),
    "queue": ("claim", "release", "renew", "waiting_tickets"),
    "retraining": ("retrain",),
    "shadow": ("answer_in_shadow", "shadow_report"),
    "similarity": ("label_group", "similar"),
    "starting": ("name_groups", "start_review", "ticket_groups"),
    "store": ("ReviewStore", "open_review"),
    "tickets": ("NewTicket", "add_tickets", "answer_waiting", "erase_ticket", "find_ticket"),
}
_MODULE_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "NewDecision",
    "NewTicket",
    "Person",
    "ReviewStore",
    "add_file",
    "add_labels",
    "add_model",
    "add_tickets",
    "answer_in_shadow",
    "answer_waiting",
    "audit_report",
    "claim",
    "compare_models",
    "corrections",
    "decided",
    "disagreements",
    "drift_report",
    "earlier_model",
    "erase_ticket",
    "export_corrections",
    "find_model",
    "find_person",
    "find_ticket",
    "guide",
    "history",
    "hold_out_rows",
    "label_file",
    "label_group",
    "labels_in_use",
    "last_comparison",
    "list_models",
    "model_history",
    "name_groups",
    "open_review",
    "promote",
    "read_people",
    "record",
    "release",
    "remove_label",
    "renew",
    "retrain",
    "roll_back",
    "serving_model",
    "serving_predictor",
    "shadow_report",
    "similar",
    "start_review",
    "store_topics",
    "ticket_groups",
    "waiting_tickets",
    "write_guide",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'bertcnn.review' has no attribute {name!r}")
    return getattr(import_module(f"bertcnn.review.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
