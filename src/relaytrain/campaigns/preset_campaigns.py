"""The campaigns that ship: `digits`, `v16s`, `v32`, the full grids of the papers, and a small one of DepL's.

| preset | network | images | sets: samples / classes | K1 | K2 |
|---|---|---|---|---|---|
| digits | small CNN | 8x8 digits | 800/7, 120/9, 48/10 | 5 10 20 30 | 5 15 |
| v16s | VGG11 x 1/8 | CIFAR-10, 16x16 | 2,700/7, 300/9, 90/10 | 5 10 20 30 | 5 15 |
| v32 | VGG11 x 1/8 | CIFAR-10 | 4,500/7, 500/9, 150/10 | 5 15 25 40 | 5 15 25 40 |
| paper | VGG11 | CIFAR-10 (+100) | 45,000/10, 5,000/13, 1,500/15 | 5 15 25 40 60 100 | the same |
| depl | AlexNet | CIFAR-10 | edge 40,000, far edge 5,000 | 1 to 20 | up to 60 |
| depl-small | AlexNet x 1/8 | CIFAR-10, 16x16 | edge 600, far edge 60 | 5 17 | up to 60 |
| depl-sgd | AlexNet x 1/8, He's draws | CIFAR-10, 16x16 | edge 1,200, far edge 60 | 1 to 20 | up to 60 |
| depl-small-mobilenet | MobileNet x 1/4 | CIFAR-10, 16x16 | edge 4,000 | never | - |

Paper: PACT section VI-A: gold trains the full network for K1 epochs, F1 of it is pruned and silver or bronze go on;
after K2 epochs silver may prune F2 of what is left and hand over to bronze. DepL section VI-A: AlexNet, test loss.

Deviations: without CIFAR-100 the classes of gold, silver and bronze are 7, 9 and 10 of CIFAR-10's, since new classes
must appear at every switch. Epochs of the last stage are not stated in PACT: 100 in `paper`. Samples are not stated in
DepL, nor what F2 is a share of: of the full network here, above F1, as its versions are named elsewhere in the paper.
The small campaigns also try switches that change nodes alone, the version alone, and distillation, so that a model of
the change can tell them apart; learning rates are ten times the papers' where epochs have ten times fewer images.
`depl-small` steps with Adam: the narrow AlexNet has no batch norm, and with SGD it stayed at ln 10 for ten epochs or,
at larger rates, for good. `depl-sgd` has every K1 and every pair of factors of DepL's Fig. 4 and steps as the paper
does (SGD, 1e-3, momentum 0.9), in batches of 16: with He's draws the narrow AlexNet learns so. `depl-small-mobilenet`
steps with Adam and trains the versions of Table I alone, all that the paper prints of it: 4,000 images, for 2,400
taught it nothing about others; at an eighth of its width pruning by 0.9 would leave one channel in the stem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..core.errors import UsageError
from .campaign import Branch, Campaign, Growing, Images

PRESETS = (
    *("digits", "v16s", "v32", "paper", "depl"),
    *("depl-small", "depl-sgd", "depl-small-mobilenet"),
)
PACT_SWITCHES = (5, 15, 25, 40, 60, 100)
F1, F2 = (0.5, 0.75), (0.25, 0.5)
PACT_RATIOS = (0.5, 0.625, 0.75, 0.8125, 0.875)
"""F1, and F2 of what F1 left, as shares of the full network."""
DEPL_RATIOS = (0.25, 0.36, 0.5, 0.75)
DEPL_VERSIONS = (0.5, 0.75, 0.9)
"""Versions of DepL's Table I; each is also trained by itself on the edge."""
_DEPL_PAIRS = tuple((a, b) for a in DEPL_RATIOS for b in DEPL_RATIOS if a < b)
_DEPL_NETWORKS = {"alexnet": "AlexNet", "alexnet-he": "AlexNet", "mobilenet": "MobileNet"}
STUDENT = "student"
Sets = Mapping[str, tuple[int, range]]
"""Node sets: samples and classes."""


@dataclass(frozen=True)
class Lengths:
    """Epochs after a switch: of first and second prunings, and of the kinds that only the small campaigns try."""

    first: int
    second: int
    others: int = 0
    version_only: int = 0


class _SmallGrid(NamedTuple):
    """A small campaign of PACT's kind: (family, width, the student's), samples of the sets, epochs of switches."""

    network: tuple[str, float, float]
    samples: tuple[int, int, int]
    k1s: tuple[int, ...]
    k2s: tuple[int, ...]
    lengths: Lengths
    batch: int
    seeds: int
    model: str
    images: Images | None = None


_SMALL = {
    "digits": _SmallGrid(
        ("cnn", 1.0, 0.5), (800, 120, 48), (5, 10, 20, 30), (5, 15), Lengths(20, 12, 10, 2), 16, 6,
        "small CNN",
    ),
    "v16s": _SmallGrid(
        ("vgg11", 0.125, 0.0625), (2700, 300, 90), (5, 10, 20, 30), (5, 15), Lengths(20, 12, 10, 3), 32, 6,
        "VGG11 width 1/8, 16x16", Images(pool=20_000, test=25, shrink=2),
    ),
    "v32": _SmallGrid(
        ("vgg11", 0.125, 0.0625), (4500, 500, 150), (5, 15, 25, 40), (5, 15, 25, 40), Lengths(40, 40, 10, 3), 64, 10,
        "VGG11 width 1/8, 32x32", Images(pool=20_000, test=50),
    ),
}  # fmt: skip


def preset(name: str, *, data: str | None = None, cifar100: bool = False) -> Campaign:
    """The campaign called `name`.

    Args:
        name: one of `PRESETS`.
        data: folder of CIFAR-10; by default the usual places are tried when training begins.
        cifar100: `paper` alone: take the classes that CIFAR-10 lacks from CIFAR-100, in the usual places.
    """
    if name not in PRESETS:
        raise UsageError(f"preset: got '{name}', expected one of {', '.join(PRESETS)}")
    if cifar100 and name != "paper":
        raise UsageError(f"preset {name} needs no CIFAR-100; only `paper` does")
    if name in _SMALL:
        grid = _SMALL[name]
        images = None if grid.images is None else replace(grid.images, folder=data)
        branches = _small_tree(grid.k1s, grid.k2s, grid.lengths)
        words = grid.model, f"{'8x8 digits' if images is None else 'CIFAR-10'}, 7/9/10 classes"
        sets = _pact_sets(grid.samples, (7, 9, 10))
        training = {"lr": 0.01, "batch": grid.batch}
        return _campaign(name, grid.network, PACT_RATIOS, sets, branches, training, words, grid.seeds, images)
    adam = {"optimizer": "adam", "lr": 0.001, "batch": 16}
    sgd = {"lr": 0.001, "batch": 64}
    if name == "paper":
        images = Images(data, more="cifar100", more_classes=5) if cifar100 else Images(data)
        classes = (10, 13, 15) if cifar100 else (7, 9, 10)
        sets = _pact_sets((45_000 if cifar100 else 34_000, 5000, 1500), classes)
        words = "VGG11", f"CIFAR-10{' and CIFAR-100' if cifar100 else ''}, {'/'.join(map(str, classes))} classes"
        return _campaign(name, ("vgg11", 1.0, None), PACT_RATIOS, sets, _paper_tree(), sgd, words, 10, images)
    if name == "depl":
        tree = _depl_tree(range(1, 21), _DEPL_PAIRS)
        return _depl(name, ("alexnet", 1.0), (40_000, 5000), tree, Images(data), sgd, 10)
    if name == "depl-sgd":
        tree = _depl_tree(range(1, 21), _DEPL_PAIRS)
        return _depl(name, ("alexnet-he", 0.125), (1200, 60), tree, Images(data, 20_000, 15, 2), sgd | {"batch": 16}, 3)
    if name == "depl-small-mobilenet":
        images, often = Images(data, 20_000, 50, 2), adam | {"batch": 32}
        return _depl(name, ("mobilenet", 0.25), (4000, 60), _depl_tree((17,), ()), images, often, 3)
    tree = _depl_tree((5, 17), ((0.36, 0.5), (0.5, 0.75)))  # the pairs of the paper's Fig. 4
    return _depl(name, ("alexnet", 0.125), (600, 60), tree, Images(data, 20_000, 15, 2), adam, 3)


def version_name(ratio: float) -> str:
    """What a version with this share of its parameters removed is called."""
    return f"p{100 * ratio:g}" if ratio else "full"


def _twice(first: float, second: float) -> float:
    """F2 of what F1 left, as a share of the full network."""
    return round(1.0 - (1.0 - first) * (1.0 - second), 6)


def _small_tree(k1s: Sequence[int], k2s: Sequence[int], epochs: Lengths) -> tuple[Branch, ...]:
    """PACT's grid, and from every K1 also: the full network to silver, pruning on gold and on silver, a student."""
    tree = Growing()
    gold = tree.root("full", "gold", max(k1s))
    for k1 in k1s:
        for f1 in F1:
            silver = tree.branch(gold, k1, version_name(f1), "silver", epochs.first)
            for k2 in k2s:
                for f2 in F2:
                    tree.branch(silver, k2, version_name(_twice(f1, f2)), "bronze", epochs.second)
            tree.branch(silver, k2s[0], version_name(f1), "bronze", epochs.others)
            tree.branch(gold, k1, version_name(f1), "bronze", epochs.first)
        moved = tree.branch(gold, k1, "full", "silver", epochs.others)
        tree.branch(moved, k2s[0], version_name(0.5), "silver", epochs.others)
        tree.branch(gold, k1, version_name(0.5), "gold", epochs.version_only)
        tree.branch(gold, k1, STUDENT, "silver", epochs.others)
    return tuple(tree.branches)


def _paper_tree() -> tuple[Branch, ...]:
    """24 trainings with one pruning and 144 with two; one silver branch serves every K2."""
    tree = Growing()
    gold = tree.root("full", "gold", max(PACT_SWITCHES))
    for k1 in PACT_SWITCHES:
        for f1 in F1:
            silver = tree.branch(gold, k1, version_name(f1), "silver", 100)
            for k2 in PACT_SWITCHES:
                for f2 in F2:
                    tree.branch(silver, k2, version_name(_twice(f1, f2)), "bronze", 100)
            tree.branch(gold, k1, version_name(f1), "bronze", 100)
    return tuple(tree.branches)


def _depl_tree(k1s: Sequence[int], pairs: Sequence[tuple[float, float]]) -> tuple[Branch, ...]:
    """Two clusters: the edge trains the network pruned by F1 from its first epoch, the far edge the one pruned by F2.

    The versions of Table I are trained on the edge whether or not anything branches off.
    """
    tree = Growing()
    for f1 in sorted({first for first, _ in pairs} | set(DEPL_VERSIONS)):
        edge = tree.root(version_name(f1), "edge", max(k1s))
        for k1 in k1s:
            for f2 in (second for first, second in pairs if first == f1):
                tree.branch(edge, k1, version_name(f2), "far-edge", 60)
    return tuple(tree.branches)


def _pact_sets(samples: Sequence[int], classes: Sequence[int]) -> Sets:
    names = ("gold", "silver", "bronze")
    return {name: (count, range(known)) for name, count, known in zip(names, samples, classes, strict=True)}


def _depl(
    name: str,
    network: tuple[str, float],
    samples: tuple[int, int],
    branches: tuple[Branch, ...],
    images: Images,
    training: dict[str, Any],
    seeds: int,
) -> Campaign:
    sets = {"edge": (samples[0], range(10)), "far-edge": (samples[1], range(10))}
    side = 32 // images.shrink
    size = f"{_DEPL_NETWORKS[network[0]]} width {network[1]:g}" + ("" if side == 32 else f", {side}x{side}")
    words = size, "CIFAR-10, 10 classes"
    ratios = (*DEPL_RATIOS, DEPL_VERSIONS[-1])
    return _campaign(name, (*network, None), ratios, sets, branches, training, words, seeds, images)


def _campaign(
    name: str,
    network: tuple[str, float, float | None],
    ratios: Sequence[float],
    sets: Sets,
    branches: tuple[Branch, ...],
    training: dict[str, Any],
    words: tuple[str, str],
    seeds: int,
    images: Images | None,
) -> Campaign:
    """On CIFAR-10, or on the digits without `images`; the full grids keep a smaller share for validation."""
    data: dict[str, Any] = {"source": "digits" if images is None else "cifar10"}
    if max(count for count, _ in sets.values()) > 20_000:
        data["validation"] = 0.005
    scenario = scenario_tables(name, network, ratios, sets, data, training)
    return Campaign(name, scenario, branches, _meta(name, *words, training), images=images, seeds=seeds)


def scenario_tables(
    name: str,
    network: tuple[str, float, float | None],
    ratios: Sequence[float],
    sets: Sets,
    data: Mapping[str, Any],
    training: Mapping[str, Any],
) -> dict[str, Any]:
    """Two nodes a set; devices, target and law only make the scenario whole: a campaign neither plans nor charges."""
    family, width, student = network
    sizes = {"parameters": 1000, "flops_per_sample": 1e6}
    versions: list[dict[str, Any]] = [{"name": "full", "family": family, "width": width, **sizes}]
    versions += [{"name": version_name(ratio), "ratio": ratio, **sizes} for ratio in ratios]
    if student is not None:
        versions.append({"name": STUDENT, "student": family, "width": student, **sizes})
    nodes = [{"name": f"{s}-{i}", "device": "node", "samples": n // 2} for s, (n, _) in sets.items() for i in (1, 2)]
    classes = {f"{s}-{i}": list(known) for s, (_, known) in sets.items() for i in (1, 2)}
    return {
        "name": f"campaign-{name}",
        "target": {"loss": 0.01, "deadline": 1e9, "on": "test"},
        "start": {"loss": 2.3, "version": "full", "nodes": next(iter(sets))},
        "versions": versions,
        "nodes": nodes,
        "node_sets": [{"name": s, "nodes": [f"{s}-1", f"{s}-2"]} for s in sets],
        "devices": {"node": {"flops_per_s": 1e9, "busy_w": 10.0, "idle_w": 1.0}},
        "law": {"kind": "level", "curves": [{"floor": 0.1, "drop": 2.2, "scale": 5.0, "power": 1.0}]},
        "training": {"momentum": 0.9, **training},
        "data": {"partition": "by-class", "standardise": True, "validation": 0.02, "classes": classes, **data},
    }


def _meta(name: str, model: str, data: str, training: Mapping[str, Any]) -> dict[str, Any]:
    step = "Adam" if training.get("optimizer") == "adam" else "SGD momentum 0.9"
    return {
        "loss": "cross-entropy, nats",
        "train_loss": "running mean over the epoch, nodes weighted by samples",
        "test_loss": "after the epoch's average, on the node set's classes",
        "before_after": "forward losses on the NEW node set's data: the network before the handover, and the one it "
        "made, batch norm re-estimated after pruning",
        "run_0": "the first trajectory; a run with a parent continues it from epoch k of its switch",
        "change_target": "jump",
        "preset": name,
        "model": model,
        "data": data,
        "optimizer": f"{step}, lr {training['lr']:g}, batch {training['batch']}, FedAvg over 2 nodes a set",
    }
