"""The scenario of a network and data of the user's own, as commented TOML: what was counted, and what is left out."""

from __future__ import annotations

import json
import math

from ..training.version_plans import VersionFacts
from .counted_scenario import FULL, HERE, SMALL, SMALL_RATIO, CountedScenario, network_key


def counted_text(counted: CountedScenario, name: str, file: str, target: float | None = None) -> str:
    """The file's text; `file` is how commands name it, `target` the loss to reach, left out when it is not given."""
    blocks = [
        _head(counted, name, file),
        _target(counted, file, target),
        f"[start]\nloss = {counted.start_loss!r}    # measured on the validation set, untrained"
        f'\nversion = "{FULL}"\nnodes = {_text(next(iter(counted.sets)))}',
        "# Counted by building it once. FLOPs: forward and backward of one sample.",
        _version(FULL, _network(counted), counted.full),
        _small(counted, file),
        _nodes(counted),
        _pairs(counted, file),
        _law(file),
        _training(counted),
    ]
    return "\n\n".join(blocks) + "\n"


def left_out(counted: CountedScenario, file: str, target: float | None) -> list[str]:
    """What the file does not say, each with the command that finds it."""
    out = []
    if target is None:
        out.append(
            f"target.loss: only you know it (untrained: {counted.start_loss:.4g}); "
            f"how far five epochs come: {_try(file)}"
        )
    if counted.small is None:
        out.append(f"a smaller version ({counted.why_no_small}); more: relaytrain doctor {file}")
    unknown = [node.name for node in counted.nodes if node.samples is None]
    if unknown:
        out.append(
            f"samples of {', '.join(unknown)}, and so seconds and joules: more than were gone through; give them"
        )
    out.append(f"[law], how the loss falls: relaytrain scout {file} OUT.json --budget 3x; a run learns it as it goes")
    out.append("other nodes and their devices: yours to add, see the comments in the file")
    return out


def _try(file: str) -> str:
    return f"relaytrain run {file} --set target.loss=0.001 --set target.max_epochs=5"


def _text(value: str) -> str:
    return json.dumps(value)


def _head(counted: CountedScenario, name: str, file: str) -> str:
    given = counted.input if isinstance(counted.input, str) else " x ".join(map(str, counted.input))
    return (
        "#:schema ./scenario.schema.json\n"
        f"# A RelayTrain scenario of {counted.asked.model} on {counted.asked.data}: a sample is {given}.\n"
        "# Its figures were counted or measured as it was written; what nobody can know before training is left out,\n"
        "# with what finds it.\n"
        f"# Check it:  relaytrain doctor {file}      Plan it:  relaytrain plan {file}\n"
        f'schema = 1\nname = "{name}"'
    )


def _target(counted: CountedScenario, file: str, target: float | None) -> str:
    known = (
        f"loss = {target!r}{_met_before(counted, target)}\n"
        if target is not None
        else (
            f"# loss = ...              # the loss to reach: yours to say. Untrained it is {counted.start_loss:.4g}\n"
            f"#   How far five epochs come:  {_try(file)}\n"
        )
    )
    others = ", ".join(f"{name} ({value:.4g})" for name, value in counted.figures.items() if name != "loss")
    known += f'# metric = "loss"         # it may be another figure (untrained): {others}\n' if others else ""
    when = '# deadline = "1h"         # by when; without it: whenever'
    return f"[target]\n{known}{when}\n# probability = 0.95      # how surely"


def _met_before(counted: CountedScenario, target: float) -> str:
    if counted.start_loss > target:
        return ""
    return f"                # met before training: untrained it is {counted.start_loss:.4g}"


def _network(counted: CountedScenario) -> str:
    return "".join(f"{key} = {_text(value)}\n" for key, value in network_key(counted.asked.model).items())


def _version(name: str, way: str, facts: VersionFacts) -> str:
    return (
        f'[[versions]]\nname = "{name}"\n{way}parameters = {facts.parameters}\n'
        f"flops_per_sample = {facts.flops_per_sample}\nweight_bytes = {facts.weight_bytes}\n"
        f"activation_bytes_per_sample = {facts.activation_bytes_per_sample}"
    )


def _small(counted: CountedScenario, file: str) -> str:
    if counted.small is None:
        return (
            f"# No smaller version: {' '.join(counted.why_no_small.split())[:400]}\n"
            f"# More about it:  relaytrain doctor {file}"
        )
    way = (
        f"ratio = {SMALL_RATIO}               # a choice: this share of the parameters is removed "
        f"(reached: {counted.small.reached_ratio:.4f})\n"
    )
    return _version(SMALL, way, counted.small)


def _nodes(counted: CountedScenario) -> str:
    words = (
        "# All data are on this machine. Other devices: add [[nodes]] with a `device` and [[node_sets]]."
        if counted.nodes[0].name == HERE
        else "# A node for every part of the data. Those that are other devices get a `device`."
    )
    nodes = "".join(
        f"\n[[nodes]]\nname = {_text(node.name)}"
        + ("" if node.samples is None else f"\nsamples = {node.samples}")
        + ("" if node.classes is None else f"\nclasses = {node.classes}")
        for node in counted.nodes
    )
    sets = "".join(
        f"\n[[node_sets]]\nname = {_text(name)}\nnodes = [{', '.join(map(_text, members))}]"
        for name, members in counted.sets.items()
    )
    return f"{words}{nodes}{sets}"


def _pairs(counted: CountedScenario, file: str) -> str:
    if not counted.pairs:
        return "# How long an epoch takes depends on how many samples it has: give the nodes `samples` and a `device`."
    rows = "".join(
        f'\n[[pairs]]\nversion = "{version}"\nnodes = {_text(nodes)}\n'
        f"seconds = {_figure(seconds)}\nenergy = {_figure(joules)}"
        for version, nodes, seconds, joules in counted.pairs
    )
    return (
        f"# One epoch here ({counted.machine}): CPU seconds from a few timed batches, joules from them. More exactly:\n"
        f"# relaytrain profile {file} --batches 40 --pairs measured.toml{rows}"
    )


def _figure(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "inf"


def _law(file: str) -> str:
    return (
        "# How the loss falls is not known, so there is no [law]: plans are guesses, runs learn from their losses.\n"
        f"# To know more before the first run:  relaytrain scout {file} OUT.json --budget 3x"
    )


def _training(counted: CountedScenario) -> str:
    asked = counted.asked
    own = "".join(f"{key} = {_text(value)}\n" for key, value in asked.training.items())
    if counted.batch is not None:
        own += f"batch = {counted.batch}                # of the loader's own batches; what costs are modelled with\n"
    unsaid = [*([] if {"step", "loss"} & set(asked.training) else ["cross-entropy"])]
    unsaid += [*([] if counted.batch is not None else ["batches of 64"]), "SGD with lr 1e-3 and momentum 0.9"]
    division = "" if counted.partition is None else f"\npartition = {_text(counted.partition)}"
    return (
        f"# What is left out is {', '.join(unsaid)}.\n"
        f"[training]\n{own}# lr = 1e-3              # careful: where losses hardly fall, 1e-2 or more\n\n"
        f"[data]\nsource = {_text(asked.data)}{division}"
    )
