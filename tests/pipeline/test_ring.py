"""Gradients around a ring, and memory given back: small parts of what processes do, without processes."""

from __future__ import annotations

import copy
import queue
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from relaytrain.experiments.mcpipe.ring import Ring, exchange  # noqa: E402
from relaytrain.pipeline.process_memory import release_code, rss_bytes  # noqa: E402

pytestmark = pytest.mark.train


class _Pipe:
    """A link within one process."""

    def __init__(self):
        self._messages = queue.Queue()

    def send(self, tensor):
        self._messages.put(tensor.clone())

    def recv(self):
        return self._messages.get(timeout=120)


@pytest.mark.parametrize("world", [2, 3, 4])
def test_a_ring_ends_with_everyones_mean(world):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3, bias=False))  # 63 numbers: no multiple of 2 or 4
    replicas = [copy.deepcopy(model) for _ in range(world)]
    for replica in replicas:
        replica(torch.randn(4, 5)).square().sum().backward()
    wanted = [
        torch.stack(list(grads)).mean(0)
        for grads in zip(*([p.grad for p in r.parameters()] for r in replicas), strict=True)
    ]
    pipes = [_Pipe() for _ in range(world)]
    rings = [Ring(rank, world, pipes[rank], pipes[rank - 1]) for rank in range(world)]
    with ThreadPoolExecutor(world) as pool:
        list(pool.map(exchange, replicas, rings))
    for replica in replicas:
        for parameter, mean in zip(replica.parameters(), wanted, strict=True):
            torch.testing.assert_close(parameter.grad, mean)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is not known elsewhere")
def test_code_given_back_still_runs():
    before = rss_bytes("VmRSS")
    release_code()
    assert rss_bytes("VmRSS") < before - 2**20
    matrix = torch.eye(3)
    assert torch.equal(matrix @ matrix, matrix)
    assert rss_bytes() > rss_bytes("RssAnon")
