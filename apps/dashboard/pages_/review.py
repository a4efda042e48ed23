"""Page: decide on tickets."""

from __future__ import annotations

from review_desk import desk
from review_store import person, review_store

desk(review_store(), person)
