"""Tables and progress bars, drawn by rich."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from bertcnn.wording import visible


class Screen(Console):
    """Rich's console, safe for untrusted text: no cursor moves, colours or links."""

    def __init__(self, *, stderr: bool = False, widest: int | None = None) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)
        if widest is not None:
            self.width = min(self.width, widest)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, with control characters in texts replaced."""
        for segment in super().render(renderable, options):
            yield (
                segment
                if segment.control
                else segment._replace(text="\n".join(map(visible, segment.text.split("\n"))))
            )
