"""Planning problems drawn at random, as scenario texts, in families that differ in what makes a plan large."""

from __future__ import annotations

import random

FAMILIES = ("regular", "drawn", "cluster", "epoch")
PRESETS = {"fig5": (1e-4, 2e-3), "smart_factory": (5e-4, 0.5), "worlds": (3e-4, 0.15), "epoch_example": (1e-3, 1.0)}
"""For grids: presets, and steps of loss and time that make a plan of some tens of megabytes."""


def scenario_text(family: str, seed: int) -> str:
    """`regular`: costs and curves on straight lines; `drawn`: all by chance; `cluster`: versions of some work on nodes
    of some speed and power; `epoch`: losses by epoch."""
    chance = random.Random(f"{family} {seed}")
    makers = {"regular": _regular, "drawn": _drawn, "cluster": _cluster, "epoch": _epoch}
    return "\n".join(makers[family](chance)) + "\n"


def grid_of(seed: int) -> tuple[str, str, list[str]]:
    """A preset, a rule and a grid as `--set` has it."""
    chance = random.Random(f"grid {seed}")
    name = chance.choice(list(PRESETS))
    loss_step, time_step = (step * chance.uniform(0.7, 4.0) for step in PRESETS[name])
    rule = "adaptive" if name == "epoch_example" else chance.choice(("literal", "clamped", "opportunity"))
    return name, rule, [f"planner.grid.loss_step={loss_step:.3g}", f"planner.grid.time_step={time_step:.3g}"]


def _head(
    chance: random.Random, loss: float, start: float, deadlines: tuple[str, ...], size: tuple[int, int]
) -> list[str]:
    versions, sets = size
    lines = ["schema = 1", "[target]", f"loss = {loss:.4f}", f"deadline = {chance.choice(deadlines)}"]
    lines += [f"probability = {chance.choice((0.5, 0.8, 0.9, 0.95))}", "[start]", f"loss = {start}"]
    lines += [f'[[versions]]\nname = "v{i}"' for i in range(versions)]
    return lines + [f'[[node_sets]]\nname = "n{j}"' for j in range(sets)]


def _changes(chance: random.Random, seconds: float, joules: float, kind: str = "") -> list[str]:
    lines = ["[[changes]]", f'kind = "{kind}"'] if kind else ["[[changes]]"]
    return [
        *lines,
        f"seconds = {chance.uniform(0.1, 1.0) * seconds:.3f}",
        f"energy = {chance.uniform(0.1, 1.0) * joules:.3f}",
    ]


def _deadlines(chance: random.Random, *most: float) -> tuple[str, ...]:
    return ("inf", *(f"{chance.uniform(60.0, limit):.1f}" for limit in most))


def _pair(version: int, nodes: int, **figures: float) -> str:
    return f'version = "v{version}"\nnodes = "n{nodes}"\n' + "\n".join(f"{k} = {v:.5f}" for k, v in figures.items())


def _regular(chance: random.Random) -> list[str]:
    size = 16, chance.randint(2, 16)
    lines = _head(chance, chance.uniform(0.22, 0.5), 2.0, _deadlines(chance, 400.0, 120.0), size)
    a, b, d, e = chance.uniform(0.1, 0.6), chance.uniform(0.03, 0.2), chance.uniform(0.3, 2.0), chance.uniform(0.1, 1.0)
    power, scale = chance.uniform(0.8, 1.4), chance.uniform(0.5, 2.0)
    for i in range(size[0]):
        for j in range(size[1]):
            lines.append("[[pairs]]\n" + _pair(i, j, seconds=1 + a * i + b * j, energy=50 - d * i - e * j))
    lines += [*_changes(chance, 2.0, 5.0), "[law]", 'kind = "level"', "robust_progress = 0.8"]
    lines += [
        f'[[law.curves]]\nversion = "v{i}"\nfloor = {0.03 + 0.01 * i}\ndrop = 2.0\n'
        f"scale = {2 + scale * i}\npower = {power}"
        for i in range(size[0])
    ]
    return [*lines, "[[law.jumps]]", f"jump = {chance.choice((0.0, 0.01, 0.05))}"]


def _drawn(chance: random.Random) -> list[str]:
    size = 16, chance.randint(1, 14)
    lines = _head(chance, chance.uniform(0.15, 0.4), 2.5, _deadlines(chance, 600.0, 200.0), size)
    curves = ["[law]", 'kind = "level"', f"robust_progress = {chance.uniform(0.7, 0.95):.3f}"]
    for i in range(size[0]):
        for j in range(size[1]):
            lines.append("[[pairs]]\n" + _pair(i, j, seconds=chance.uniform(1, 9), energy=chance.uniform(1, 90)))
            shape = {
                "floor": chance.uniform(0.02, 0.6),
                "scale": chance.uniform(3, 40),
                "power": chance.uniform(0.7, 1.4),
            }
            curves.append("[[law.curves]]\n" + _pair(i, j, drop=2.2, **shape))
    return [*lines, *_changes(chance, 1.0, 2.0), *curves, "[[law.jumps]]", f"jump = {chance.choice((0.0, 0.01, 0.03))}"]


def _cluster(chance: random.Random) -> list[str]:
    versions, sets = size = chance.randint(3, 12), chance.randint(3, 20)
    lines = _head(chance, chance.uniform(0.25, 0.45), 2.3, _deadlines(chance, 900.0, 300.0), size)
    work = [6 * chance.uniform(0.3, 1) * 0.8**i for i in range(versions)]
    nodes = [
        (chance.lognormvariate(0, 0.6), chance.lognormvariate(2, 0.7), chance.uniform(0.3, 1)) for _ in range(sets)
    ]
    curves = ["[law]", 'kind = "level"', f"robust_progress = {chance.uniform(0.7, 0.95):.3f}"]
    for i in range(versions):
        floor, scale, power = 0.05 + 0.02 * i + chance.uniform(0, 0.03), chance.uniform(4, 14), chance.uniform(0.8, 1.3)
        for j, (speed, watts, share) in enumerate(nodes):
            lines.append("[[pairs]]\n" + _pair(i, j, seconds=work[i] / speed, energy=work[i] / speed * watts))
            own = {"floor": floor + 0.05 * (1 - share), "scale": scale / share, "power": power}
            curves.append("[[law.curves]]\n" + _pair(i, j, drop=2.2, **own))
    lines += [*_changes(chance, 3.0, 20.0), *_changes(chance, 1.0, 5.0, "nodes"), *curves]
    lines += ["[[law.jumps]]", f"jump = {chance.choice((0.01, 0.03, 0.08))}"]
    return [*lines, "[[law.jumps]]", 'kind = "nodes"', "jump = 0.005"]


def _epoch(chance: random.Random) -> list[str]:
    versions, sets = size = chance.randint(2, 8), chance.randint(2, 8)
    epochs = chance.choice((20, 60, 200, 600))
    lines = _head(chance, chance.uniform(0.3, 0.5), 1.0, (f"{chance.uniform(0.4, 3.0) * epochs:.1f}",), size)
    steps = [
        "[law]",
        'kind = "epoch"',
        f"robust_progress = {chance.uniform(0.7, 0.95):.3f}",
        "robust_jump_factor = 1.2",
    ]
    for i in range(versions):
        for j in range(sets):
            lines.append("[[pairs]]\n" + _pair(i, j, seconds=chance.uniform(0.3, 3), energy=chance.uniform(1, 30)))
            a, b = chance.uniform(0.6, 1.0), chance.uniform(0.03, 0.2)
            falls = ", ".join(f"{-a * b / (1 + b * k) ** 2:.6f}" for k in range(1, epochs + 1))
            steps.append(f"[[law.steps]]\n{_pair(i, j)}change = [{falls}]")
    return [*lines, *_changes(chance, 1.0, 3.0), *steps, "[[law.jumps]]", "jump = 0.01"]
