"""``python -m kgate`` is the ``kgate`` command."""

from __future__ import annotations

from kgate.cli import main

main()
