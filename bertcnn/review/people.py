"""Who does something in a store, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertcnn.errors import RoleError, SettingsError, one_line

Role = Literal["viewer", "reviewer", "admin"]
_ROLES: tuple[Role, ...] = ("viewer", "reviewer", "admin")  # each may do what those before it may
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Person:
    """Somebody, or a program.

    Attributes:
        name: shown beside what they do.
        role: viewer, reviewer or admin.
    """

    name: str
    role: Role = "admin"

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > _LONGEST_NAME:
            raise SettingsError(
                f"the name {one_line(self.name)} of a person",
                expected=f"1 to {_LONGEST_NAME} characters",
                fix="give a name or an e-mail address",
            )
        if self.role not in _ROLES:
            raise SettingsError(
                f"the role {one_line(self.role)}",
                expected=f"one of {', '.join(_ROLES)}",
                fix="give one of these",
            )

    def needs(self, role: Role, action: str) -> None:
        """Refuse an action.

        Raises:
            RoleError: the person's role is below `role`.
        """
        if _ROLES.index(self.role) < _ROLES.index(role):
            raise RoleError(
                f"{one_line(self.name)} has the role {self.role} and wants to {action}",
                expected=f"the role {role}",
                fix="ask an admin to do it, or for the role",
            )
