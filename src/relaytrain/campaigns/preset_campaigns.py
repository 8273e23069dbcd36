"""The campaigns that ship: `digits`, `v16s`, `v32`, the full grids of the papers, and a small one of DepL's.

| preset | network | images | sets: samples / classes | K1 | K2 |
|---|---|---|---|---|---|
| digits | small CNN | 8x8 digits | 800/7, 120/9, 48/10 | 5 10 20 30 | 5 15 |
| v16s | VGG11 x 1/8 | CIFAR-10, 16x16 | 2,700/7, 300/9, 90/10 | 5 10 20 30 | 5 15 |
| v32 | VGG11 x 1/8 | CIFAR-10 | 4,500/7, 500/9, 150/10 | 5 15 25 40 | 5 15 25 40 |
| paper | VGG11 | CIFAR-10 (+100) | 45,000/10, 5,000/13, 1,500/15 | 5 15 25 40 60 100 | the same |
| depl | AlexNet | CIFAR-10 | edge 40,000, far edge 5,000 | 1 to 20 | up to 60 |
| depl-small | AlexNet x 1/8 | CIFAR-10, 16x16 | edge 600, far edge 60 | 5 17 | up to 60 |
| depl-small-mobilenet | MobileNet x 1/4 | 8x8 digits | edge 600 | never | - |

Paper: PACT section VI-A: gold trains the full network for K1 epochs, F1 of it is pruned and silver or bronze go on;
after K2 epochs silver may prune F2 of what is left and hand over to bronze. DepL section VI-A: AlexNet, test loss.

Deviations: without CIFAR-100 the classes of gold, silver and bronze are 7, 9 and 10 of CIFAR-10's, since new classes
must appear at every switch. Epochs of the last stage are not stated in PACT: 100 in `paper`. Samples are not stated in
DepL, nor what F2 is a share of: of the full network here, above F1, as its versions are named elsewhere in the paper.
The small campaigns also try switches that change nodes alone, the version alone, and distillation, so that a model of
the change can tell them apart; learning rates are ten times the papers' where epochs have ten times fewer images.
`depl-small` steps with Adam: the narrow AlexNet has no batch norm, and with SGD it stayed at ln 10 for ten epochs or, at
larger rates, for good. `depl-small-mobilenet` steps like it and trains the versions of Table I alone, all that the
paper prints of MobileNet; on digits, since so few images of CIFAR-10 taught it nothing about others; at an eighth of
its width pruning by 0.9 would leave one channel in the stem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import UsageError
from .campaign import Branch, Campaign, Growing, Images

PRESETS = ("digits", "v16s", "v32", "paper", "depl", "depl-small", "depl-small-mobilenet")
PACT_SWITCHES = (5, 15, 25, 40, 60, 100)
F1, F2 = (0.5, 0.75), (0.25, 0.5)
DEPL_RATIOS = (0.25, 0.36, 0.5, 0.75)
DEPL_VERSIONS = (0.5, 0.75, 0.9)
"""Versions of DepL's Table I; each is also trained by itself on the edge."""
_DEPL_NETWORKS = {"alexnet": "AlexNet", "mobilenet": "MobileNet"}
STUDENT = "student"


@dataclass(frozen=True)
class Lengths:
    """Epochs after a switch: of first and second prunings, and of the kinds that only the small campaigns try."""

    first: int
    second: int
    others: int = 0
    version_only: int = 0


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
    if name == "digits":
        return _pact(
            name, ("cnn", 1.0, 0.5), {"source": "digits"}, (800, 120, 48), _grown(_small_tree((5, 10, 20, 30), (5, 15), Lengths(20, 12, 10, 2))),
            training={"lr": 0.01, "batch": 16}, words=("small CNN", "8x8 digits, 7/9/10 classes"), seeds=6,
        )  # fmt: skip
    if name == "v16s":
        return _pact(
            name, ("vgg11", 0.125, 0.0625), {"source": "cifar10"}, (2700, 300, 90), _grown(_small_tree((5, 10, 20, 30), (5, 15), Lengths(20, 12, 10, 3))),
            training={"lr": 0.01, "batch": 32}, words=("VGG11 width 1/8, 16x16", "CIFAR-10, 7/9/10 classes"), seeds=6,
            images=Images(data, 20_000, 25, 2),
        )  # fmt: skip
    if name == "v32":
        return _pact(
            name, ("vgg11", 0.125, 0.0625), {"source": "cifar10"}, (4500, 500, 150), _grown(_small_tree((5, 15, 25, 40), (5, 15, 25, 40), Lengths(40, 40, 10, 3))),
            training={"lr": 0.01, "batch": 64}, words=("VGG11 width 1/8, 32x32", "CIFAR-10, 7/9/10 classes"), seeds=10,
            images=Images(data, 20_000, 50),
        )  # fmt: skip
    if name == "paper":
        more = Images(data, more="cifar100", more_classes=5) if cifar100 else Images(data)
        return _pact(
            name, ("vgg11", 1.0, None), {"source": "cifar10", "validation": 0.005}, (45_000 if cifar100 else 34_000, 5000, 1500),
            _grown(_paper_tree()), training={"lr": 0.001, "batch": 64}, seeds=10, images=more, classes=(10, 13, 15) if cifar100 else (7, 9, 10),
            words=("VGG11", "CIFAR-10 and CIFAR-100, 10/13/15 classes" if cifar100 else "CIFAR-10, 7/9/10 classes"),
        )  # fmt: skip
    if name == "depl":
        return _depl(
            name,
            ("alexnet", 1.0),
            (40_000, 5000),
            tuple(range(1, 21)),
            None,
            Images(data),
            {"lr": 0.001, "batch": 64},
            10,
        )
    adam, images = {"optimizer": "adam", "lr": 0.001}, Images(data, 20_000, 15, 2)
    if name == "depl-small-mobilenet":
        return _depl(name, ("mobilenet", 0.25), (600, 60), (17,), (), None, {**adam, "batch": 16}, 3)
    few = ((0.36, 0.5), (0.5, 0.75))  # those of the paper's Fig. 4
    return _depl(name, ("alexnet", 0.125), (600, 60), (5, 17), few, images, {**adam, "batch": 16}, 3)


def version_name(ratio: float) -> str:
    """What a version with this share of its parameters removed is called."""
    return f"p{100 * ratio:g}" if ratio else "full"


def _twice(first: float, second: float) -> float:
    """F2 of what F1 left, as a share of the full network."""
    return round(1.0 - (1.0 - first) * (1.0 - second), 6)


def _small_tree(k1s: Sequence[int], k2s: Sequence[int], epochs: Lengths) -> Growing:
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
    return tree


def _paper_tree() -> Growing:
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
    return tree


def _grown(tree: Growing) -> tuple[Branch, ...]:
    return tuple(tree.branches)


def _pact(
    name: str,
    network: tuple[str, float, float | None],
    data: dict[str, Any],
    samples: tuple[int, int, int],
    branches: tuple[Branch, ...],
    *,
    training: dict[str, Any],
    words: tuple[str, str],
    seeds: int,
    images: Images | None = None,
    classes: tuple[int, int, int] = (7, 9, 10),
) -> Campaign:
    ratios = sorted({*F1, *(_twice(a, b) for a in F1 for b in F2)})
    sets = dict(zip(("gold", "silver", "bronze"), zip(samples, classes, strict=True), strict=True))
    scenario = scenario_tables(name, network, ratios, {s: (n, range(c)) for s, (n, c) in sets.items()}, data, training)
    return Campaign(name, scenario, branches, _meta(name, *words, training), images=images, seeds=seeds)


def _depl(
    name: str,
    network: tuple[str, float],
    samples: tuple[int, int],
    k1s: Sequence[int],
    pairs: Sequence[tuple[float, float]] | None,
    images: Images | None,
    training: dict[str, Any],
    seeds: int,
) -> Campaign:
    """Two clusters: the edge trains the network pruned by F1 from its first epoch, the far edge the one pruned by F2.

    The versions of Table I are trained on the edge whether or not anything branches off. Without `images`: the digits.
    """
    tree = Growing()
    if pairs is None:
        pairs = [(a, b) for a in DEPL_RATIOS for b in DEPL_RATIOS if a < b]
    for f1 in sorted({first for first, _ in pairs} | set(DEPL_VERSIONS)):
        edge = tree.root(version_name(f1), "edge", max(k1s))
        for k1 in k1s:
            for f2 in (second for first, second in pairs if first == f1):
                tree.branch(edge, k1, version_name(f2), "far-edge", 60)
    sets = {"edge": (samples[0], range(10)), "far-edge": (samples[1], range(10))}
    data: dict[str, Any] = {
        "source": "digits" if images is None else "cifar10",
        **({"validation": 0.005} if samples[0] > 20_000 else {}),
    }
    scenario = scenario_tables(name, (*network, None), (*DEPL_RATIOS, DEPL_VERSIONS[-1]), sets, data, training)
    side = 8 if images is None else 32 // images.shrink
    size = f"{_DEPL_NETWORKS[network[0]]} width {network[1]:g}" + ("" if side == 32 else f", {side}x{side}")
    meta = _meta(name, size, "8x8 digits, 10 classes" if images is None else "CIFAR-10, 10 classes", training)
    return Campaign(name, scenario, tuple(tree.branches), meta, images=images, seeds=seeds)


def scenario_tables(
    name: str,
    network: tuple[str, float, float | None],
    ratios: Sequence[float],
    sets: Mapping[str, tuple[int, range]],
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
    first = next(iter(sets))
    return {
        "name": f"campaign-{name}",
        "target": {"loss": 0.01, "deadline": 1e9, "on": "test"},
        "start": {"loss": 2.3, "version": "full", "nodes": first},
        "versions": versions,
        "nodes": nodes,
        "node_sets": [{"name": s, "nodes": [f"{s}-1", f"{s}-2"]} for s in sets],
        "devices": {"node": {"flops_per_s": 1e9, "busy_w": 10.0, "idle_w": 1.0}},
        "law": {"kind": "level", "curves": [{"floor": 0.1, "drop": 2.2, "scale": 5.0, "power": 1.0}]},
        "training": {"momentum": 0.9, **training},
        "data": {
            "partition": "by-class", "standardise": True, "validation": 0.02,
            "classes": {f"{s}-{i}": list(classes) for s, (_, classes) in sets.items() for i in (1, 2)},
            **data,
        },
    }  # fmt: skip


def _meta(name: str, model: str, data: str, training: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "loss": "cross-entropy, nats",
        "train_loss": "running mean over the epoch, nodes weighted by samples",
        "test_loss": "after the epoch's average, on the node set's classes",
        "before_after": "forward losses on the NEW node set's data: the network before the handover, and the one it made, "
        "batch norm re-estimated after pruning",
        "run_0": "the first trajectory; a run with a parent continues it from epoch k of its switch",
        "change_target": "jump",
        "preset": name,
        "model": model,
        "data": data,
        "optimizer": f"{_stepping(training)}, lr {training['lr']:g}, batch {training['batch']}, FedAvg over 2 nodes a set",
    }


def _stepping(training: Mapping[str, Any]) -> str:
    return "Adam" if training.get("optimizer") == "adam" else "SGD momentum 0.9"
