"""What the pipeline tells about how far it is; a renderer overrides it, and silence is the default."""

from __future__ import annotations


class Progress:
    """Silent progress: every method may be called at any time, none of them raises."""

    def phase(self, name: str, total: int = 0) -> None:
        """A new phase begins, of so many steps."""

    def step(self, label: str, failed: bool = False) -> None:
        """One step is done."""

    def note(self, text: str) -> None:
        """Something worth a line at once."""
