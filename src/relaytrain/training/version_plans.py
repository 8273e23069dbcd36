"""How a scenario's versions come about, and what each of them measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import nn

from ..core.errors import ScenarioError
from ..models.rebuild import Resolve, adapted_spec, from_scenario, of_module
from ..models.spec import AdapterSpec, FactorySpec, Spec, adapter_of, family_spec
from .datasets import Sets
from .known_data import image_form
from .references import either

Way = Literal["network", "pruned", "nested", "student", "rank"]
RatioIn = Literal["parameters", "flops", "bytes"]
FAR_OFF = 0.1
"""A reached ratio further than this from the one asked for is worth a word."""


@dataclass(frozen=True)
class VersionPlan:
    """How a version comes about.

    network: of its own, the first of them is the full version. pruned: `ratio` of the full version's parameters
    removed. nested: likewise, all but its leading channels, which are trained with it. student: a network of its own,
    reached by distillation. `grow` is the declared way back from a smaller one.
    """

    name: str
    way: Way
    spec: Spec | None = None
    ratio: float = 0.0
    ratio_in: RatioIn = "parameters"
    grow: Literal["checkpoint", "distill"] | None = None


@dataclass(frozen=True)
class VersionFacts:
    """What a version measures: FLOPs of one training step of one sample, bytes of its state.

    `reached_ratio` is the share that pruning removed of what `ratio_in` names. Of an adapter, parameters and bytes are
    those that are trained and sent; `fixed_bytes` are of its frozen base, which every node holds once. `astray` says in
    words how far from the asked ratio, and why, where that is far.
    """

    parameters: int
    flops_per_sample: int
    weight_bytes: int
    activation_bytes_per_sample: int
    spec: Spec
    reached_ratio: float
    ratio_in: RatioIn = "parameters"
    fixed_bytes: int = 0
    astray: str = ""

    def size(self, ratio_in: RatioIn) -> int:
        """The figure that a ratio in this unit is a share of."""
        return {"parameters": self.parameters, "flops": self.flops_per_sample, "bytes": self.weight_bytes}[ratio_in]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that `run_started` keeps."""
        told = {key: value for key, value in vars(self).items() if key != "astray" or value}
        return {**told, "spec": self.spec.to_dict()}


def astray(plan: VersionPlan, reached: float, whole: str) -> str:
    """How far pruning came from the ratio that was asked, in words with the reason; nothing where that is near."""
    if plan.way not in ("pruned", "nested") or abs(reached - plan.ratio) <= FAR_OFF:
        return ""
    what = {"flops": "FLOPs"}.get(plan.ratio_in, plan.ratio_in)
    why = f"{whole} stay whole" if whole else "its layers are narrow, or stay whole where they are coupled or kept"
    return f"{plan.ratio:.1%} of the {what} were to be removed, {reached:.1%} could be: {why}"


def version_plans(
    tables: Sequence[Mapping[str, Any]], sets: Sets, folder: Path | None
) -> tuple[dict[str, VersionPlan], Resolve | None, tuple[str, ...]]:
    """Plans from the resolved `[[versions]]`; factories are called once for their shapes."""
    plans: dict[str, VersionPlan] = {}
    known: dict[str, Resolve] = {}
    for table in tables:
        name, grow = table["name"], table.get("grow")
        own = table.get("student") or table.get("factory") or table.get("family")
        if table.get("rank") is not None:
            plans[name] = _adapter(table, plans, folder, known)
        elif own is not None:
            first = not any(plan.way == "network" for plan in plans.values())
            way: Way = "student" if table.get("student") or not first else "network"
            spec = _network(own, table, sets, folder, known)
            plans[name] = VersionPlan(name, way, spec, grow=grow)
        else:
            removed: Way = "nested" if table.get("way") == "nested" else "pruned"
            ratio_in: RatioIn = table.get("ratio_in") or "parameters"
            plans[name] = VersionPlan(name, removed, ratio=_of_full(table, plans), ratio_in=ratio_in, grow=grow)
    if not any(plan.way == "network" for plan in plans.values()):
        raise ScenarioError("versions: none has a network of its own; give the largest one family or factory")
    return plans, either(known) if known else None, tuple(known)


def _adapter(
    table: Mapping[str, Any], plans: Mapping[str, VersionPlan], folder: Path | None, known: dict[str, Resolve]
) -> VersionPlan:
    """A rank of an adapter: the first says on which network and where, those after it only their rank."""
    first = next((plan.spec for plan in plans.values() if plan.spec is not None and adapter_of(plan.spec)), None)
    before = None if first is None else adapter_of(first)
    reference = table.get("factory") or (first.factory if isinstance(first, FactorySpec) else None)
    assert reference is not None  # `scenario.training_checks`
    if reference not in known:
        known[reference] = from_scenario(reference, folder)
    rank, alpha = int(table["rank"]), table.get("alpha")
    targets = table.get("targets") or (() if before is None else before.targets)
    train = table.get("train") if table.get("train") is not None or before is None else before.train
    adapter = AdapterSpec(rank, float(rank if alpha is None else alpha), tuple(targets), tuple(train or ()), "0" * 64)
    way: Way = "rank" if first is not None else "network"
    return VersionPlan(table["name"], way, adapted_spec(reference, known[reference], adapter), grow=table.get("grow"))


def _network(
    own: str,
    table: Mapping[str, Any],
    sets: Sets,
    folder: Path | None,
    known: dict[str, Resolve],
) -> Spec:
    if ":" not in own:
        shape, classes = image_form(sets, f"versions.{table['name']}: {own}")
        return family_spec(own, input=shape, classes=classes, width=table.get("width", 1.0))
    known[own] = from_scenario(own, folder)
    network = known[own](own)()
    if not isinstance(network, nn.Module):
        raise ScenarioError(
            f"versions.{table['name']}: {own}() returned {type(network).__name__}, expected a torch.nn.Module"
        )
    spec, _ = of_module(network, own)
    return spec


def _of_full(table: Mapping[str, Any], plans: Mapping[str, VersionPlan]) -> float:
    """The ratio as a share of the full version: 0.5 of a version that lost 0.5 is 0.75 of the full one."""
    ratio, base = float(table["ratio"]), table.get("of")
    before = plans.get(base) if base is not None else None
    if before is None or before.way == "network":
        return ratio
    if before.way == "student":
        raise ScenarioError(
            f"versions.{table['name']}.of: {base} is a student; expected the full version or a pruned one"
        )
    if before.ratio_in != (table.get("ratio_in") or "parameters"):
        raise ScenarioError(
            f"versions.{table['name']}.of: {base} is asked in {before.ratio_in}; expected the same ratio_in, "
            "or a ratio of the full version"
        )
    return 1.0 - (1.0 - before.ratio) * (1.0 - ratio)
