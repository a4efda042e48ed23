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
    from bertcnn.review.decisions import NewDecision, disagreements, history, record
    from bertcnn.review.files import add_file, label_file, serving_predictor
    from bertcnn.review.labels import (
        add_labels,
        guide,
        labels_in_use,
        remove_label,
        write_guide,
    )
    from bertcnn.review.models import (
        add_model,
        find_model,
        list_models,
        model_history,
        promote,
        roll_back,
        serving_model,
    )
    from bertcnn.review.people import Person
    from bertcnn.review.queue import claim, release, renew, waiting_tickets
    from bertcnn.review.retraining import retrain
    from bertcnn.review.similarity import label_group, similar
    from bertcnn.review.statistics import decided
    from bertcnn.review.store import ReviewStore, open_review
    from bertcnn.review.tickets import NewTicket, add_tickets, erase_ticket, find_ticket

_HOMES = {
    "audits": ("audit_report",),
    "comparing": ("compare_models",),
    "corrected_rows": ("corrections", "export_corrections", "hold_out_rows"),
    "decisions": ("NewDecision", "disagreements", "history", "record"),
    "files": ("add_file", "label_file", "serving_predictor"),
    "labels": ("add_labels", "guide", "labels_in_use", "remove_label", "write_guide"),
    "models": (
        "add_model",
        "find_model",
        "list_models",
        "model_history",
        "promote",
        "roll_back",
        "serving_model",
    ),
    "people": ("Person",),
    "queue": ("claim", "release", "renew", "waiting_tickets"),
    "retraining": ("retrain",),
    "similarity": ("label_group", "similar"),
    "statistics": ("decided",),
    "store": ("ReviewStore", "open_review"),
    "tickets": ("NewTicket", "add_tickets", "erase_ticket", "find_ticket"),
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
    "audit_report",
    "claim",
    "compare_models",
    "corrections",
    "decided",
    "disagreements",
    "erase_ticket",
    "export_corrections",
    "find_model",
    "find_ticket",
    "guide",
    "history",
    "hold_out_rows",
    "label_file",
    "label_group",
    "labels_in_use",
    "list_models",
    "model_history",
    "open_review",
    "promote",
    "record",
    "release",
    "remove_label",
    "renew",
    "retrain",
    "roll_back",
    "serving_model",
    "serving_predictor",
    "similar",
    "waiting_tickets",
    "write_guide",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'bertcnn.review' has no attribute {name!r}")
    return getattr(import_module(f"bertcnn.review.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
