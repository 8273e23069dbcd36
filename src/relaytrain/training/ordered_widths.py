"""Ordered widths: a version and slices of it trained together, so that its leading channels work alone.

In turns a batch passes through the whole version or through one of its slices:

    share = 0.5, two slices:   whole  a  whole  b  whole  a ...

Gradients of a slice reach the leading parts of the whole's weights; every batch makes one step of the optimizer. The
turns follow from the seed of the pass alone, so that a repeated pass gives the same bits, and no random number is drawn
that a plain pass would not draw. Batch norm normalises a slice by the batch itself; its running statistics, which are
of the whole version, are left alone, and estimated again when a slice is handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from ..compression.slices import cut
from ..models.rebuild import Resolve, build, shapes_of, skeleton
from ..models.spec import FamilySpec, Spec

PHASES = 1000
"""Beginnings of the turns that seeds are spread over, so that passes of a single batch reach every width too."""


def turns(share: float, slices: int, seed: int) -> Iterator[int]:
    """Which width each batch trains, without end: 0 the whole version, 1 to `slices` a slice, each as often as others.

    A share `share` of the batches, as evenly as it goes, falls to slices.
    """
    began = seed % PHASES / PHASES
    taken, batch = seed // PHASES % slices, 0
    while True:
        before, after = int(batch * share + began), int((batch + 1) * share + began)
        batch += 1
        if after > before:
            yield 1 + taken % slices
            taken += 1
        else:
            yield 0


@contextmanager
def ordered_widths(
    model: nn.Module, slices: Sequence[Spec], share: float, seed: int, *, resolve: Resolve | None = None
) -> Iterator[None]:
    """Within, every training call of `model` trains the width whose turn it is; without slices nothing is changed."""
    if not slices or share <= 0.0:
        yield
        return
    widths = [_narrow(spec, resolve) for spec in slices]
    order, whole = turns(share, len(widths), seed), model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        width = next(order) if model.training else 0
        return whole(*args, **kwargs) if width == 0 else _through(model, widths[width - 1], args, kwargs)

    model.forward = forward
    try:
        yield
    finally:
        del model.forward  # the class's own is seen again


def _narrow(spec: Spec, resolve: Resolve | None) -> nn.Module:
    """A module of the slice's shapes, its tensors to be replaced on every call."""
    return (skeleton(spec) if isinstance(spec, FamilySpec) else build(spec, resolve=resolve)).train()


def _through(model: nn.Module, narrow: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    shapes, buffers = shapes_of(narrow), {name for name, _ in model.named_buffers()}
    tensors: dict[str, Tensor] = {}
    parts: dict[int, Tensor] = {}  # weights that have two names stay one
    for name, tensor in model.state_dict(keep_vars=True).items():
        part = parts.setdefault(id(tensor), cut(tensor, shapes[name]).contiguous())
        tensors[name] = part.clone() if name in buffers else part
    call: Callable[..., Any] = functional_call
    return call(narrow, tensors, args, kwargs)
