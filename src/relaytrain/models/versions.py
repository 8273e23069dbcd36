"""The versions of a network and what each costs, before any training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from ..compression.prune import Importance, prune
from ..core.errors import UsageError
from .flops import Counts, count
from .rebuild import of_module, spec_of
from .spec import Spec, digest


@dataclass(frozen=True)
class VersionInfo:
    """One version: its spec, its counts, and the parameter ratio asked for and reached (of the full version)."""

    name: str
    spec: Spec
    counts: Counts
    asked: float
    reached: float
    model: nn.Module = field(repr=False, compare=False)

    @property
    def digest(self) -> str:
        """Names the version by its spec."""
        return digest(self.spec)


def versions(
    model: nn.Module | Sequence[nn.Module],
    example: Tensor,
    *,
    ratios: Sequence[float] = (0.0, 0.5, 0.75),
    spec: Spec | None = None,
    importance: Importance = "l1",
) -> list[VersionInfo]:
    """The versions of `model` at these pruning ratios, or the versions a user brings as a list of modules.

    Args:
        model: the full version, or a list of modules, the first of them the full one.
        example: a batch of inputs.
        ratios: shares of the full version's parameters to remove; 0 is the full version. Not used with a list.
        spec: the full version's spec; without it the module itself serves as the factory of its versions.
        importance: norm that ranks channels.
    """
    if not isinstance(model, nn.Module):
        return _given(list(model), example)
    base = spec if spec is not None else of_module(model)[0]
    if len(set(ratios)) != len(ratios) or not ratios:
        raise UsageError(f"ratios: got {list(ratios)}, expected at least one and each once")
    made: list[VersionInfo] = []
    for ratio in ratios:
        pruned = prune(model, example, ratio, importance=importance)
        counts = count(pruned.model, example)
        name = "full" if ratio == 0 else f"pruned-{100 * ratio:g}"
        made.append(VersionInfo(name, spec_of(pruned.model, base), counts, ratio, pruned.reached, pruned.model))
    return made


def _given(models: list[nn.Module], example: Tensor) -> list[VersionInfo]:
    if not models:
        raise UsageError("versions: got an empty list, expected at least one module")
    made: list[VersionInfo] = []
    for index, model in enumerate(models):
        counts = count(model, example)
        full = made[0].counts.parameters if made else counts.parameters
        smaller = 1.0 - counts.parameters / full
        spec = of_module(model, f"in_memory:version_{index}")[0]
        made.append(VersionInfo("full" if index == 0 else f"version-{index}", spec, counts, smaller, smaller, model))
    return made
