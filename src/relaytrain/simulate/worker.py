"""One process of a `crew`: reads a task, then plays a world for every line until there are no more."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from typing import IO, Any

from ..core.errors import RelayTrainError
from ..scenario import load_scenario
from .crew import WorldTask, play, say


def work(lines: IO[str], answers: IO[str]) -> None:
    """Answers every index with the results of that world, or with the error that kept it from being played."""
    opening = json.loads(lines.readline() or "null")
    if opening is None:
        return
    scenario = load_scenario(opening["scenario"])
    told = opening["task"]
    task = WorldTask(told["seed"], tuple(told["modes"]), tuple(told["rules"]))
    for line in lines:
        try:
            answer: Any = [asdict(result) for result in play(scenario, task, int(line))]
        except RelayTrainError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        say(answers, json.dumps(answer))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller hears Ctrl-C too, and ends us
    work(sys.stdin, sys.stdout)
