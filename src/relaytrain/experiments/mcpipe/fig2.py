"""mcPipe figure 2: two workers, MNIST (here Fashion-MNIST)."""

from __future__ import annotations

from .figures import AccuracyFigure

SOURCES = ("fashion-mnist", "digits")
reproduce = AccuracyFigure(2, SOURCES, 2, __file__).reproduce
