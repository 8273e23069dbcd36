"""A task becomes an answer: what training came to, its seconds, or what went wrong. For every way of training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch

from ..core.errors import RelayTrainError, WorkerLost
from ..core.user_code import UserCodeError
from .task import Blob, FailureKind, NodeResult, NodeTask, failed


class TooLate(RelayTrainError):
    """The pass is past its deadline, or nobody waits for it any more."""


def answered(task: NodeTask, train: Callable[[], tuple[Blob, int, float | None]]) -> NodeResult:
    """What `train` gives (weights, samples, mean loss) as a result. Whatever goes wrong becomes one with an error."""
    cpu, wall = time.process_time(), time.monotonic()

    def fail(kind: FailureKind, error: str) -> NodeResult:
        return failed(task, kind, error, cpu_s=time.process_time() - cpu, wall_s=time.monotonic() - wall)

    try:
        weights, samples, loss = train()
    except TooLate as late:
        return fail("late", str(late) or "past its deadline")
    except WorkerLost as lost:
        return fail("lost", str(lost))
    except UserCodeError as error:
        short_of_memory = isinstance(error.__cause__, MemoryError | torch.OutOfMemoryError)
        return fail("refused" if short_of_memory else "user", str(error))  # another node may have enough
    except Exception as error:  # torch itself may fail in any way
        return fail("refused", f"{type(error).__name__}: {str(error).strip()[:300]}")
    if loss is not None and not math.isfinite(loss):
        return fail("non-finite", f"its training loss became {loss}")
    return NodeResult(
        task.run,
        task.node,
        task.epoch,
        task.attempt,
        samples=samples,
        checkpoint=weights,
        train_loss=loss,
        cpu_s=time.process_time() - cpu,
        wall_s=time.monotonic() - wall,
    )
