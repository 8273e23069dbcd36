"""Data, step and networks of the user's own: gone through as an epoch would, without training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..core.errors import ScenarioError
from .diagnosis import Diagnosis

if TYPE_CHECKING:
    from ..training.setup import TrainingSetup


def own_data_check(setup: TrainingSetup) -> Iterator[Diagnosis]:
    """The data of every node and of the two sets apart, batch by batch; a step of every network on each shape seen."""
    from ..data.nested import shapes
    from ..training.own_soundness import step_fault_on, walk

    networks = [plan for plan in setup.versions.values() if plan.spec is not None]
    for node in setup.datasets:
        where = f"data of {node}"
        try:
            walked = walk(setup, node)
        except ScenarioError as error:
            yield Diagnosis("error", where, str(error))
            continue
        extent = f"{walked.samples} samples in {walked.batches} batches" if walked.whole else "more than was walked"
        yield Diagnosis("ok", where, f"{shapes(walked.different[0])}: {extent}")
        held = setup.site(node).held
        faults = [step_fault_on(setup, plan, held, list(walked.different), node) for plan in networks]
        for words in dict.fromkeys(str(fault) for fault in faults if fault is not None):
            yield Diagnosis("error", where, words)
    for words in setup.caveats:
        yield Diagnosis("note", "data", words, "a resumed run may differ in its last digits or more")
    yield from _sets_apart(setup)


def _sets_apart(setup: TrainingSetup) -> Iterator[Diagnosis]:
    from ..training.own_soundness import network_of

    for name, data in (("validation", setup.validation), ("test", setup.test)):
        try:
            figure = setup.evaluate(network_of(setup, setup.full), data).metric(setup.problem.target.metric)
        except ScenarioError as error:
            yield Diagnosis("error", name, str(error))
            continue
        yield Diagnosis("ok", name, f"{setup.problem.target.metric} {figure:.4g} before any training")


def own_networks_check(setup: TrainingSetup) -> Iterator[Diagnosis]:
    """Each network of its own: a step was taken with it already; saved and rebuilt, it has to give the same."""
    from ..training.own_soundness import rebuilt_alike

    for plan in setup.versions.values():
        if plan.spec is None:
            continue
        if rebuilt_alike(setup, plan):
            yield Diagnosis("ok", plan.name, "trains and is rebuilt bit for bit")
        else:
            remedy = "keep all of its state in parameters and buffers, and draw random numbers in training mode only"
            yield Diagnosis("error", plan.name, "the rebuilt version gives other outputs", remedy)
