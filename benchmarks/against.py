"""This tree against another checkout, side by side in one run: start-up, plans of presets, the solves of `planning.py`.

    python benchmarks/against.py OTHER_CHECKOUT [--rounds N] [--only WORD] [--growth]

Both trees run under this interpreter, PYTHONPATH alone is switched, and each is asked in turn: other, this, other, ...
Start-up is a process a turn; what takes less is called by one process of each tree, as often as a clock needs. Every
row has processes of its own, replaced every few rounds: memory that another row leaves behind, and its layout, count
too. Figures are CPU seconds: the median of each tree, and the median of the ratios of neighbouring turns, with the
quarters that they lie between. Answers are compared before anything is timed; where a tree answers otherwise, the row
says so.

What is compared: rules by their name, `adaptive`, for a scenario's default may have changed; a preset that differs
between the trees as the other tree has it, read by both. `--growth` adds plans with up to 1,000 pairs. A row that one
of the trees cannot do is left out, by name.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
MOST_RATIO = 1.05
ENOUGH_S = 0.04
"""CPU seconds of a turn: shorter calls are repeated."""
LONG_S = 0.5
"""A call that takes longer is made in every third round only."""
TURNS_A_PROCESS = 5
RULE = "adaptive"
PRESETS = Path("src/relaytrain/scenario/presets")


# --- in a process of one of the trees -------------------------------------------------------------------------------


def cases(presets: dict[str, str], growth: bool) -> Iterator[tuple[str, Callable[[], Callable[[], object]]]]:
    """What can be called, by name: each makes its problem and gives the call that is timed."""
    import numpy as np
    import planning as p
    from planning import State, replace

    import relaytrain as rt

    def preset(source: str) -> Callable[[], Callable[[], object]]:
        def made() -> Callable[[], object]:
            loaded = p.scenario(source)
            return lambda: rt.plan(loaded, rule=RULE)

        return made

    def layered(times: int, cells: int) -> Callable[[], object]:
        instance, start = p.gridded(*p.layered_problem(times, cells), cells, times)
        return lambda: p.cold(instance, start)

    def between(pairs: int, steps: int, cells: int) -> Callable[[], object]:
        problem, costs, law = p.random_problem(np.random.default_rng(pairs), pairs, 1e4, kind="level", goal=0.2)
        there = p.Start(0, 0, 1.0, 0.0)
        free = p.instance_of(problem, costs, law)
        quick = p.solve(replace(free, joules=free.seconds, tables={}), there)
        middle = 0.5 * (p.solve(free, there).elapsed_s + quick.elapsed_s)
        bound = replace(problem, target=replace(problem.target, deadline_s=middle))
        instance, start = p.gridded(bound, costs, law, cells, steps)
        return lambda: p.cold(instance, start)

    def again(pairs: int, goal: float, warm: bool) -> Callable[[], object]:
        problem, costs, law = p.random_problem(np.random.default_rng(3), pairs, 1e4, kind="level", goal=goal)
        instance, start = p.instance_of(problem, costs, law), p.Start(0, 0, 1.0, 0.0)
        first = p.solve(instance, start)
        later = p.Start(1, first.actions[0], first.losses[0] * 1.01, first.elapsed_s * 0.01)
        return (lambda: p.solve(instance, later)) if warm else (lambda: p.cold(instance, start))

    def fifty(kind: str) -> Callable[[], object]:
        problem, costs, law = p.random_problem(
            np.random.default_rng(5), 50, 1000.0, kind=kind, epochs=1000 if kind == "epoch" else 100, goal=0.1
        )
        law = law if kind == "epoch" else replace(law, mult_robust=law.mult * 0.9)
        return lambda: p.Pact().plan(problem, costs, law, State(0, 1.0, 0.0, 0))

    def grown(pairs: int, goal: float, share: float, whole: bool = False) -> Callable[[], object]:
        problem, costs, law = p.random_problem(np.random.default_rng(9), pairs, 1e5, kind="level", goal=goal)
        start = p.Start(0, 0, 1.0, 0.0)
        free = p.solve(p.instance_of(problem, costs, law), start)
        bound = replace(problem, target=replace(problem.target, deadline_s=free.elapsed_s * share))
        if whole:
            robust = replace(law, mult_robust=law.mult * 0.97)
            return lambda: p.Pact().plan(bound, costs, robust, State(0, 1.0, 0.0, 0))
        instance = p.instance_of(bound, costs, law)
        return lambda: p.cold(instance, start)

    for name, source in presets.items():
        yield f"rt.plan {name}", preset(source)
    for times, cells in ((30, 60), (45, 80), (55, 95)):
        yield f"solve layers {times},{cells}", lambda t=times, c=cells: layered(t, c)
    for pairs, steps, cells in ((3, 200, 400), (6, 400, 1000), (3, 1000, 2000), (9, 600, 1200)):
        yield f"solve grid {pairs},{steps},{cells}", lambda a=(pairs, steps, cells): between(*a)
    for pairs, goal in ((3, 0.1), (9, 0.08), (30, 0.08)):
        yield f"solve cold {pairs} pairs", lambda a=(pairs, goal): again(*a, False)
        yield f"solve again {pairs} pairs", lambda a=(pairs, goal): again(*a, True)
    for kind in ("level", "epoch"):
        yield f"plan 50 pairs {kind}", lambda k=kind: fifty(k)
    for pairs, goal in ((3, 0.2), (10, 0.08), (30, 0.08), (100, 0.08)):
        for word, share in (("slack", 1.02), ("bound", 0.97)):
            yield f"solve {word} {pairs} pairs", lambda a=(pairs, goal, share): grown(*a)
    for pairs in (100, 300, 1000) if growth else ():
        for word, share in (("slack", 1.02), ("bound", 0.97)):
            yield f"plan {word} {pairs} pairs", lambda a=(pairs, 0.08, share, True): grown(*a)


def said(answer: object) -> list[object]:
    """What is compared of an answer: feasible, joules, seconds, the pairs."""
    pairs = getattr(answer, "actions", None) or [str(d.pair) for d in getattr(answer, "decisions", ())]
    return [answer.feasible, answer.energy_j, answer.elapsed_s, [str(pair) for pair in pairs]]  # type: ignore[attr-defined]


def serve(presets: dict[str, str], growth: bool) -> None:
    """Lines of standard input are names of cases and how often each is called; answers are CPU seconds of a call."""
    sys.path.pop(0)  # this script's folder: each tree has a `planning` of its own
    known, calls = dict(cases(presets, growth)), {}
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        name, times = json.loads(line)
        if name not in calls:
            try:
                calls[name] = known[name]()
                answer = calls[name]()
                print(json.dumps({"said": said(answer)}), flush=True)
            except Exception as fault:
                print(json.dumps({"fault": f"{type(fault).__name__}: {fault}"[:120]}), flush=True)
            continue
        call = calls[name]
        gc.collect()
        gc.disable()  # as timeit does: whose turn a collection falls into says nothing of what is called
        begin = time.process_time()
        for _ in range(times):
            call()
        cpu_s = time.process_time() - begin
        gc.enable()
        print(json.dumps({"cpu_s": cpu_s / times}), flush=True)


# --- the side that asks ---------------------------------------------------------------------------------------------


class Tree:
    """A checkout, its environment, and the process that plans in it."""

    def __init__(self, root: Path, presets: dict[str, str], growth: bool) -> None:
        self.root, self.presets, self.growth = root, presets, growth
        dropped = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")  # byte code is kept, as where a package is installed
        self.environment = {key: value for key, value in os.environ.items() if key not in dropped}
        self.environment |= {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
        self.child: subprocess.Popen[str] | None = None

    def start(self) -> list[str]:
        """A new process; the names of what it can be asked."""
        self.stop()
        environment = {**self.environment, "PYTHONPATH": f"{self.root / 'src'}{os.pathsep}{self.root / 'benchmarks'}"}
        command = [sys.executable, str(Path(__file__).resolve()), "--serve", json.dumps(self.presets)]
        self.child = subprocess.Popen(
            command + ["--growth"] * self.growth,
            env=environment,
            cwd=self.root,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.child.stdout is not None
        names: list[str] = json.loads(self.child.stdout.readline())
        return names

    def ask(self, name: str, times: int = 1) -> dict[str, object]:
        """One answer of the process."""
        assert self.child is not None and self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(json.dumps([name, times]) + "\n")
        self.child.stdin.flush()
        answer: dict[str, object] = json.loads(self.child.stdout.readline())
        return answer

    def stop(self) -> None:
        """End the process."""
        if self.child is not None and self.child.stdin is not None:
            self.child.stdin.close()
            self.child.wait()
            self.child = None

    def verb(self, words: list[str], **more: str) -> float:
        """CPU seconds of a process that runs a verb of the command line, with `more` in its environment."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "relaytrain", *words]
        environment = {**self.environment, **more}
        done = subprocess.run(command, check=False, capture_output=True, env=environment, cwd=self.root)
        assert done.returncode in (0, 4), (command, done.stderr.decode()[-500:])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def shared_presets(other: Path) -> tuple[dict[str, str], list[str]]:
    """Presets of both trees: their name, or the other's file where they differ; and what is to be said of that."""
    sources, notes = {}, []
    for path in sorted((other / PRESETS).glob("*.toml")):
        mine = HERE / PRESETS / path.name
        if not mine.exists():
            notes.append(f"{path.stem}: only the other tree has it")
            continue
        same = mine.read_bytes() == path.read_bytes()
        sources[path.stem] = path.stem if same else str(path)
        notes += [] if same else [f"{path.stem}: as the other tree has it, read by both; this tree's differs"]
    return sources, notes


def row(name: str, pairs: list[tuple[float, float]], note: str = "") -> float:
    """Print a row; its ratio."""
    ratios = sorted(now / before for before, now in pairs)
    before_s, now_s = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio, quarter = statistics.median(ratios), len(ratios) // 4
    mark = "" if ratio <= MOST_RATIO else "  ABOVE"
    print(
        f"{name:28} {before_s * 1e3:11.3f} {now_s * 1e3:11.3f}  {ratio:6.3f}  "
        f"{ratios[quarter]:.2f} - {ratios[-1 - quarter]:.2f}  {len(ratios):3}{mark}{note}",
        flush=True,
    )
    return ratio


def startup(trees: tuple[Tree, Tree], rounds: int, only: str) -> Iterator[float]:
    """Verbs of the command line, a process a turn."""
    verbs = {"--help": ["--help"], "validate": ["validate", trees[0].presets["quickstart"]]}
    verbs |= {f"plan {name}": ["plan", source, "--rule", RULE] for name, source in trees[0].presets.items()}
    verbs = {name: words for name, words in verbs.items() if only in f"start {name}"}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in verbs}
    for words in verbs.values():
        for tree in trees:
            tree.verb(words, RELAYTRAIN_COMPILE="1")  # what a small plan would do without on a new machine
    for done in range(rounds):
        for name, words in verbs.items():
            seconds = {tree: tree.verb(words) for tree in (trees if done % 2 else trees[::-1])}
            taken[name].append((seconds[trees[0]], seconds[trees[1]]))
    for name, pairs in taken.items():
        yield row(f"start {name}", pairs)


def in_process(trees: tuple[Tree, Tree], rounds: int, only: str) -> Iterator[float]:
    """Plans and solves, called by a process of each tree in turn."""
    names = [tree.start() for tree in trees]
    for name in (name for name in names[1] if name in names[0] and only in name):
        taken: list[tuple[float, float]] = []
        times, slowest, note = 0, 0.0, ""
        for done in range(rounds):
            if done % TURNS_A_PROCESS == 0:
                for tree in trees:
                    tree.start()
                answers = [tree.ask(name) for tree in trees]
                fault = next((answer["fault"] for answer in answers if "fault" in answer), None)
                if fault is not None:
                    print(f"{name}: left out, {fault}")
                    break
            if done == 0:
                if answers[0]["said"] != answers[1]["said"]:
                    note = f"  answers differ: {_difference(*(answer['said'] for answer in answers))}"
                slowest = max(float(str(tree.ask(name)["cpu_s"])) for tree in trees)
                times = max(1, int(ENOUGH_S / max(slowest, 1e-6)))
            elif slowest > LONG_S and done % 3:
                continue
            order = trees if done % 2 else trees[::-1]
            seconds = {tree: float(str(tree.ask(name, times)["cpu_s"])) for tree in order}
            taken.append((seconds[trees[0]], seconds[trees[1]]))
        if taken:
            yield row(name, taken, note)
    for tree in trees:
        tree.stop()


def _difference(before: object, now: object) -> str:
    assert isinstance(before, list) and isinstance(now, list)
    if before[0] != now[0]:
        return f"feasible {before[0]}, now {now[0]}"
    if before[1] != now[1]:
        return f"{now[1] - before[1]:+.3g} on {before[1]:.6g}"
    return "same energy, other pairs" if before[3] != now[3] else "same pairs, other seconds"


@contextmanager
def judged() -> Iterator[None]:
    """The machine's state, where its module can be had."""
    from machine import calibrated

    with calibrated():
        yield


def main() -> None:
    """Print the table, and how many rows are above the limit."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reader.add_argument("other", type=Path, nargs="?")
    reader.add_argument("--rounds", type=int, default=15)
    reader.add_argument("--only", default="", help="rows whose name holds this")
    reader.add_argument("--growth", action="store_true")
    reader.add_argument("--serve", help=argparse.SUPPRESS)
    asked = reader.parse_args()
    if asked.serve is not None:
        serve(json.loads(asked.serve), asked.growth)
        return
    if asked.other is None:
        reader.error("OTHER_CHECKOUT is missing")
    other = asked.other.resolve()
    presets, notes = shared_presets(other)
    trees = (Tree(other, presets, asked.growth), Tree(HERE, presets, asked.growth))
    print(*notes, sep="\n")
    with judged():
        print(f"{'CPU, milliseconds':28} {'other':>11} {'this':>11}  {'ratio':>6}  quarters     turns")
        ratios = [*startup(trees, asked.rounds, asked.only), *in_process(trees, asked.rounds, asked.only)]
    above = sum(ratio > MOST_RATIO for ratio in ratios)
    print(f"{len(ratios)} rows, {above} above {MOST_RATIO}")


if __name__ == "__main__":
    main()
