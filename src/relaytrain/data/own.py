"""`OwnData`: a user's `Dataset`, `DataLoader` or iterable of batches as the road that `held.Held` describes.

| what is brought | a pass of training | repeated bit for bit |
|---|---|---|
| map-style `Dataset` (`__getitem__`, `__len__`) | `DataLoader(dataset, batch, shuffle=True)` | yes |
| `DataLoader` over one | itself: its sampler, `collate_fn`, transforms and workers | yes, unless its workers persist |
| `IterableDataset`, any iterable of batches | itself, from its beginning | what it gives is its own affair |

"Yes" rests on the pass being seeded (`seeding.seeded`): torch, numpy and `random`, a loader's own generator too; the
workers of a loader take their seeds from torch's. A last batch of one sample joins the batch before it where we
make the batches, since batch norm needs two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, Sampler, Subset
from torch.utils.data import Dataset as TorchDataset

from ..core.errors import ScenarioError
from ..core.user_code import UserCodeError, defined_at, user_code
from ..costs.profiled import minibatches
from .held import Span
from .nested import Batch

Kind = Literal["samples", "loader", "stream", "batches"]
Indexes = NDArray[np.int64]


class Indivisible(ScenarioError):
    """Data that have no positions were to be divided among nodes."""


@dataclass(frozen=True)
class Origin:
    """Where data come from, so that another process can fetch them: `source` called with `argument`, its `part`."""

    source: str
    argument: str | None = None
    part: str | None = None


@dataclass(frozen=True, eq=False)
class OwnData:
    """Data of a user's own. `name` says whose, for messages; `again` makes anew what one pass uses up.

    `indexes`: which samples of a map-style `value` belong to this node. `origin`: how to get it in another process.
    """

    value: Any = field(repr=False)
    name: str = "data"
    indexes: Indexes | None = field(default=None, repr=False)
    again: Callable[[], Any] | None = field(default=None, repr=False)
    origin: Origin | None = None

    def __post_init__(self) -> None:
        if self.kind == "samples" and len(self) == 0:
            raise UserCodeError(f"{self.place}: {self.name} holds no samples at all; check where it looks for them")

    def __len__(self) -> int:
        return len(self.value if self.indexes is None else self.indexes)

    @property
    def kind(self) -> Kind:
        """What was brought."""
        return kind_of(self.value) or "batches"

    @property
    def samples(self) -> int | None:
        """How many samples a pass goes over; None where only the pass itself can tell."""
        if self.kind == "samples":
            return len(self)
        return _samples_of(self.value) if self.kind == "loader" else None

    def batches(self, size: int) -> int | None:
        """How many batches a pass has; None where only the pass itself can tell."""
        if self.kind == "samples":
            return minibatches(len(self), size)
        try:
            return None if self.kind == "stream" or self.again is not None else len(self.value)
        except TypeError:  # it has no length
            return None

    @property
    def unpromised(self) -> str | None:
        """Why a repeated pass may give other batches; None where it gives the same ones."""
        if self.kind in ("stream", "batches") or isinstance(getattr(self.value, "dataset", None), IterableDataset):
            return f"{self.name} is iterated over: what it gives when an epoch is repeated is up to it"
        if self.kind == "loader" and self.value.num_workers > 0 and self.value.persistent_workers:
            return f"{self.name} keeps its workers, whose random state goes on from pass to pass"
        return None

    @property
    def place(self) -> str:
        """File and line of the class or function that gives the data where it is the user's, else its name."""
        return defined_at(self.value, *_behind(self.value), self.again) or self.name

    def check_divisible(self) -> None:
        """Refuse to divide what has no positions."""
        if self.kind != "samples":
            raise Indivisible(
                f"data: {self.name} is a {type(self.value).__name__}, which cannot be divided among nodes; expected a "
                'map-style Dataset, or partition = "by-node" with data for each node'
            )

    def part(self, indexes: Indexes, name: str | None = None) -> OwnData:
        """The samples at `indexes`, in that order."""
        self.check_divisible()
        chosen = indexes if self.indexes is None else self.indexes[indexes]
        return replace(self, indexes=chosen, name=self.name if name is None else name)

    def spans(self, chosen: Sequence[Span]) -> OwnData:
        """Only the samples of these rows."""
        return self.part(np.concatenate([np.arange(first, last) for first, last in chosen]))

    def shuffled(self, size: int, epoch: int = 1) -> Iterator[Batch]:
        """One pass of training; `size` counts where the batches are ours to make."""
        if self.kind == "samples":
            order = _Joined(RandomSampler(self.dataset), size)
            return self._guarded(lambda: DataLoader(self.dataset, batch_sampler=order))
        for part in (self.value, *(getattr(self.value, name, None) for name in ("sampler", "batch_sampler"))):
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)
        return self.ordered(size)

    def ordered(self, size: int) -> Iterator[Batch]:
        """All of it in its own order; a loader that shuffles does so here too."""
        if self.kind == "samples":
            return self._guarded(lambda: DataLoader(self.dataset, batch_size=size))
        if self.kind == "stream":
            return self._guarded(lambda: DataLoader(self.value, batch_size=size))
        return self._guarded(self._anew)

    def reseed(self, seed: int) -> None:
        """Generators that the user gave a loader, its sampler or batch sampler draw from `seed`."""
        for part in (self.value, *(getattr(self.value, name, None) for name in ("sampler", "batch_sampler"))):
            generator = getattr(part, "generator", None)
            if isinstance(generator, torch.Generator):
                generator.manual_seed(seed)

    @cached_property
    def dataset(self) -> Any:
        """The node's samples of a map-style dataset."""
        return self.value if self.indexes is None else Subset(self.value, self.indexes.tolist())

    def _anew(self) -> Iterable[Batch]:
        if self.again is None:
            whole: Iterable[Batch] = self.value
            return whole
        batches: Iterable[Batch] = self.again()
        return batches

    def _guarded(self, make: Callable[[], Iterable[Batch]]) -> Iterator[Batch]:
        """Whatever goes wrong in the user's data is told with the user's file and line."""
        given = 0
        with self._users():
            for batch in make():
                given += 1
                yield batch
        if not given:
            where = "" if self.place == self.name else f"{self.place}: "
            raise UserCodeError(
                f"{where}{self.name} gave no batch in a whole pass; give at least one, and anew in every pass"
            )

    def _users(self) -> Any:
        return user_code(self.name, lambda: defined_at(self.value, *_behind(self.value), self.again))


@dataclass(frozen=True, eq=False)
class Together:
    """Data of several nodes, one after the other: for a look at all of a node set's."""

    parts: tuple[OwnData, ...]

    @property
    def samples(self) -> int | None:
        """Of all, where each knows its own."""
        counts = [part.samples for part in self.parts]
        return None if None in counts else sum(count or 0 for count in counts)

    def batches(self, size: int) -> int | None:
        """Of all, where each knows its own."""
        counts = [part.batches(size) for part in self.parts]
        return None if None in counts else sum(count or 0 for count in counts)

    def shuffled(self, size: int, epoch: int = 1) -> Iterator[Batch]:
        """A pass over each."""
        for part in self.parts:
            yield from part.shuffled(size, epoch)

    def ordered(self, size: int) -> Iterator[Batch]:
        """Each in its order."""
        for part in self.parts:
            yield from part.ordered(size)

    def reseed(self, seed: int) -> None:
        """Each of them."""
        for part in self.parts:
            part.reseed(seed)

    def spans(self, chosen: Sequence[Span]) -> Together:
        """Rows of several nodes are not numbered."""
        return self

    @property
    def place(self) -> str:
        """Of the first."""
        return self.parts[0].place


class _Joined(Sampler[list[int]]):
    """Batches of a sampler's positions; a lone last one joins its neighbour."""

    def __init__(self, order: Sampler[int], size: int) -> None:
        self.order, self.size = order, size

    def __iter__(self) -> Iterator[list[int]]:
        waiting: list[int] | None = None
        for batch in BatchSampler(self.order, self.size, drop_last=False):
            if waiting is not None and len(batch) == 1 < self.size:
                batch, waiting = [*waiting, *batch], None
            if waiting is not None:
                yield waiting
            waiting = batch
        if waiting is not None:
            yield waiting


def kind_of(value: Any) -> Kind | None:
    """What kind of data this is; None for what is no data of a user's own, such as arrays or a number."""
    if isinstance(value, DataLoader):
        return "loader"
    if isinstance(value, IterableDataset):
        return "stream"
    if isinstance(value, TorchDataset):
        return "samples"
    if isinstance(value, str | bytes | Mapping | tuple | np.ndarray | torch.Tensor):
        return None
    if hasattr(value, "__getitem__") and hasattr(value, "__len__") and not isinstance(value, list):
        return "samples"
    return "batches" if hasattr(value, "__iter__") else None


def own_data(value: Any, name: str, origin: Origin | None = None, again: Callable[[], Any] | None = None) -> OwnData:
    """`value`, or what it gives when it is called, as data of a user's own.

    Args:
        value: a `Dataset`, a `DataLoader`, an iterable of batches, or a function without arguments that makes one.
        name: for messages.
        origin: how another process gets at it.
        again: makes it anew.

    Raises:
        UserCodeError: it is none of these, or one that can be gone through only once.
    """
    if kind_of(value) is None and callable(value) and not isinstance(value, type):
        with user_code(name):
            contents = value()
        return own_data(contents, name, origin, value)
    if kind_of(value) is None:
        raise UserCodeError(
            f"{defined_at(again) or name}: {name} is a {type(value).__name__}, expected a Dataset, a DataLoader, an "
            "iterable of batches, a function that makes one of them, or (images, labels)"
        )
    if isinstance(value, Iterator):
        if again is None:
            raise UserCodeError(
                f"{name} is a {type(value).__name__}, which can be gone through only once, and every epoch needs it "
                "anew; give the function that makes it, or an object with __iter__"
            )
        return OwnData(value, name, again=again, origin=origin)
    return OwnData(value, name, origin=origin)


def labels_of(data: OwnData) -> NDArray[np.int64] | None:
    """Whole numbers by which a map-style dataset can be divided: its `targets` or `labels`; None without any."""
    labels = _labels(data.value)
    if labels is None or data.indexes is None:
        return labels
    return labels[data.indexes]


def _labels(value: Any) -> NDArray[np.int64] | None:
    if isinstance(value, Subset):
        inner = _labels(value.dataset)
        return None if inner is None else inner[np.asarray(value.indices)]
    named = next((getattr(value, name) for name in ("targets", "labels") if hasattr(value, name)), None)
    tensors = getattr(value, "tensors", None)
    if named is None and isinstance(tensors, tuple) and len(tensors) > 1:
        named = tensors[-1]
    if named is None or callable(named):
        return None
    array = np.asarray(named)
    fits = array.ndim == 1 and array.dtype.kind in "iub" and len(array) == len(value)
    return array.astype(np.int64) if fits else None


def _behind(value: Any) -> tuple[Any, ...]:
    """What of a loader may be the user's own."""
    inner = getattr(value, "dataset", None)
    return tuple(part for part in (inner, getattr(inner, "dataset", None), getattr(value, "collate_fn", None)) if part)


def _samples_of(loader: DataLoader[Any]) -> int | None:
    """Samples in a pass of a loader; None where its sampler cannot say, or its dataset is iterated over."""
    sampler, batching = loader.sampler, loader.batch_sampler
    if isinstance(loader.dataset, IterableDataset) or (batching is not None and type(batching) is not BatchSampler):
        return None
    try:
        count = len(sampler)  # type: ignore[arg-type]
    except TypeError:
        return None
    return count - count % int(loader.batch_size or 1) if loader.drop_last else count
