"""What users bring as data: recognised, divided, passed over again the same way; the caller's random states stay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, Subset, TensorDataset  # noqa: E402

from relaytrain.core.errors import ScenarioError  # noqa: E402
from relaytrain.data.nested import mapped, resized, rows, shapes, without_number  # noqa: E402
from relaytrain.data.own import OwnData, Together, kind_of, labels_of, own_data  # noqa: E402
from relaytrain.data.seeding import seeded  # noqa: E402

pytestmark = pytest.mark.train


class Noisy(Dataset[Any]):
    """Samples with numbers of all three generators in them."""

    def __init__(self, count: int = 9) -> None:
        self.targets = [index % 3 for index in range(count)]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> Any:
        return index, torch.rand(()), np.random.rand(), random.random()


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(7))


def passed(data: OwnData, seed: int, size: int = 4, epoch: int = 1) -> list[Any]:
    with seeded(seed, data):
        return [batch[0].tolist() + batch[2].tolist() for batch in data.shuffled(size, epoch)]


def test_kinds() -> None:
    loader = DataLoader(Noisy())
    found = [kind_of(value) for value in (Noisy(), loader, Stream(), [1, 2], iter([1]), 3, {"a": 1}, np.zeros(3))]
    assert found == ["samples", "loader", "stream", "batches", "batches", None, None, None]


@pytest.mark.parametrize("count, size, wanted", [(9, 4, [4, 5]), (8, 4, [4, 4]), (10, 4, [4, 4, 2]), (1, 4, [1])])
def test_a_lone_last_sample_joins_its_neighbour(count: int, size: int, wanted: list[int]) -> None:
    data = OwnData(Noisy(count))
    assert [rows(batch) for batch in data.shuffled(size)] == wanted
    assert data.batches(size) == len(wanted) and data.samples == count


@pytest.mark.parametrize(
    "make",
    [
        lambda: Noisy(),
        lambda: DataLoader(Noisy(), batch_size=4, shuffle=True),
        lambda: DataLoader(Noisy(), batch_size=4, shuffle=True, generator=torch.Generator()),
        lambda: DataLoader(Noisy(), batch_size=4, sampler=RandomSampler(Noisy(), generator=torch.Generator())),
        pytest.param(lambda: DataLoader(Noisy(), 4, shuffle=True, num_workers=1), marks=pytest.mark.slow),
    ],
)
def test_a_pass_is_a_function_of_its_seed(make: Any) -> None:
    data = own_data(make(), "mine")
    first = passed(data, 5)
    assert data.unpromised is None
    assert passed(data, 6) != first == passed(data, 5) == passed(own_data(make(), "mine"), 5)


def test_the_order_is_that_of_a_plain_loader() -> None:
    data = OwnData(Noisy(10))
    torch.manual_seed(3)
    wanted = [batch[0].tolist() for batch in DataLoader(data.value, batch_size=4, shuffle=True)]
    torch.manual_seed(3)
    assert [batch[0].tolist() for batch in data.shuffled(4)] == wanted


def test_the_callers_random_states_stay() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    passed(OwnData(Noisy()), 7)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before[1:]


def test_what_is_used_up_by_a_pass_is_made_anew() -> None:
    made = own_data(lambda: (torch.ones(2) for _ in range(3)), "mine")
    assert [len(list(made.ordered(1))) for _ in range(2)] == [3, 3]
    assert "iterated over" in (made.unpromised or "") and made.samples is None
    with pytest.raises(ScenarioError, match="only once"):
        own_data((torch.ones(2) for _ in range(3)), "mine")


def test_set_epoch_is_told_the_epoch() -> None:
    class Shifting(RandomSampler):
        told = -1

        def set_epoch(self, epoch: int) -> None:
            self.told = epoch

    sampler = Shifting(Noisy())
    list(OwnData(DataLoader(Noisy(), sampler=sampler)).shuffled(4, 11))
    assert sampler.told == 11


def test_labels_by_which_data_are_divided() -> None:
    tensors = TensorDataset(torch.randn(6, 2), torch.arange(6))
    assert labels_of(OwnData(Noisy(4))).tolist() == [0, 1, 2, 0]
    assert labels_of(OwnData(Subset(tensors, [4, 2]))).tolist() == [4, 2]
    assert labels_of(OwnData(tensors, indexes=np.array([5, 0]))).tolist() == [5, 0]
    assert labels_of(OwnData(TensorDataset(torch.randn(6, 2), torch.randn(6)))) is None
    parts = OwnData(tensors).part(np.array([3, 4, 5])).part(np.array([2, 0]))
    assert [int(batch[1]) for batch in parts.ordered(1)] == [5, 3]
    with pytest.raises(ScenarioError, match="cannot be divided"):
        OwnData(DataLoader(tensors)).part(np.array([0]))
    assert Together((OwnData(tensors), OwnData(Noisy(4)))).samples == 10


class Pair(NamedTuple):
    tokens: Any
    mask: Any


def test_batches_of_any_kind() -> None:
    batch = {"in": Pair(torch.ones(3, 5, dtype=torch.long), [torch.zeros(3)]), "scale": torch.tensor(2.0), "name": "x"}
    assert rows(batch) == 3 and shapes(batch) == "{in: (int64[5], (float32[])), scale: float32[], name: str}"
    larger = resized(batch, 7)
    assert larger["in"].tokens.shape == (7, 5) and larger["scale"] == 2.0 and larger["name"] == "x"
    assert isinstance(mapped(batch, torch.clone)["in"], Pair)
    assert not without_number(batch) and without_number([torch.tensor([1.0, float("inf")])])
