"""The fastest split under each way of keeping versions: the one asked for, and what the others would reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import InfeasibleError
from .chain import Unit
from .partition import Device, PipelinePlan, partition
from .policy_choice import Keeping
from .schedules import Window


@dataclass(frozen=True)
class KeepingPlans:
    """The plan asked for, and what each way of keeping versions would reach; None where nothing fits."""

    network: str
    units: tuple[Unit, ...]
    devices: tuple[Device, ...]
    plan: PipelinePlan
    others: dict[Keeping, PipelinePlan | None]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        ways = {
            k.value: None if p is None else {"step_s": p.step_s, "speedup": p.speedup} for k, p in self.others.items()
        }
        units = [
            {"name": u.name, "weight_bytes": u.weight_bytes, "train_flops": u.train_flops, "output_bytes": u.output[1]}
            for u in self.units
        ]
        return {**self.plan.to_dict(), "network": self.network, "keeping": ways, "units": units}


def plan_each_keeping(
    network: str,
    units: tuple[Unit, ...],
    devices: Sequence[Device],
    *,
    m: int | None = None,
    window: Window = Window.one_f_one_b,
    keeping: Keeping = Keeping.best_of,
    state_tensors: int = 0,
    checkpoint: bool = False,
) -> KeepingPlans:
    """Split `units` over `devices`; `m` is the number of devices unless given, `checkpoint` allows activations twice.

    Raises:
        UsageError: an argument is out of range.
        InfeasibleError: `keeping` fits no split into the devices' memory.
    """
    plans: dict[Keeping, PipelinePlan | None] = {}
    failure: InfeasibleError | None = None
    in_flight = len(devices) if m is None else m
    for way in Keeping:
        try:
            plans[way] = partition(
                units,
                devices,
                m=in_flight,
                window=window,
                keeping=way,
                state_tensors=state_tensors,
                checkpoint=checkpoint,
            )
        except InfeasibleError as error:
            plans[way] = None
            failure = error if way is keeping else failure
    plan = plans[keeping]
    if plan is None:
        fits = [way.value for way, other in plans.items() if other is not None]
        raise InfeasibleError(f"{failure}" + (f"; what fits: {', '.join(fits)}" if fits else ""))
    return KeepingPlans(network, units, tuple(devices), plan, plans)
