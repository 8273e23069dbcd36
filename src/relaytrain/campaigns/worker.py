"""One process of a campaign: reads what to train, then trains a piece for every line until there are no more."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any

from ..core.errors import RelayTrainError
from .pieces import LostWeights, PieceBench, train_piece
from .tree import Campaign


def work(lines: IO[str], answers: IO[str]) -> None:
    """Answers every (seed, piece) with `done`, the piece whose weights are `lost`, or the `error` that kept it."""
    opening = json.loads(lines.readline() or "null")
    if opening is None:
        return
    campaign, folder = Campaign.from_dict(opening["campaign"]), Path(opening["work"])
    bench: PieceBench | None = None
    for line in lines:
        seed, piece = json.loads(line)
        answer: dict[str, Any]
        try:
            if bench is None or bench.seed != seed:
                bench = None  # let go of the data of the seed before
                bench = PieceBench(campaign, seed)
            result = train_piece(bench, campaign.pieces[piece], folder)
            answer = {"done": True, "cpu_s": result.cpu_s}
        except LostWeights as lost:
            answer = {"lost": lost.piece}
        except RelayTrainError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    """Answers go out alone: what a user's code prints goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller hears Ctrl-C too, and ends us
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        work(sys.stdin, answers)
    except BrokenPipeError:  # nobody listens any more; what was trained is kept
        os._exit(0)


if __name__ == "__main__":
    main()
