"""The README of an export: what the network is, what inputs it takes, and how others load it."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.domain import Preprocessing
from ..report.event_fields import number, text
from ..report.run_parts import EpochView
from ..report.run_view import RunView

FOR_RAW = ("model.pt2", "model.onnx")


def readme(
    view: RunView,
    epoch: EpochView,
    which: str,
    steps: Preprocessing | None,
    shape: tuple[int, ...] | None,
    files: Sequence[str],
) -> str:
    """The page.

    Args:
        view: the run.
        epoch: whose network it is.
        which: final or best.
        steps: what was done to raw inputs, if the run kept it.
        shape: of one raw input, if known.
        files: written beside it.
    """
    reached = f"{view.asked.on} {view.asked.metric} {epoch.loss:.6g}"
    lines = [f"# {epoch.pair.version} of {view.run}", ""]
    lines.append(f"The {which} network of a RelayTrain run: after epoch {epoch.epoch}, {reached}.")
    accuracy = number((view.verdict or {}).get("test_accuracy")) if which == "final" else None
    figure = number((view.verdict or {}).get("test_figure")) if which == "final" else None
    if figure is not None:
        lines.append(f"{view.asked.metric} on the test set as the run reported it: {figure:.6g}.")
    if accuracy is not None:
        lines.append(f"Accuracy on the test set as the run reported it: {accuracy:.6g}.")
    lines += ["", "## Inputs", "", *_inputs(view, steps, shape, files), "", "## Loading", "", *_loading(steps, files)]
    return "\n".join(lines) + "\n"


def _inputs(
    view: RunView, steps: Preprocessing | None, shape: tuple[int, ...] | None, files: Sequence[str]
) -> list[str]:
    data = view.scenario.get("data")
    source = text(data.get("source")) if isinstance(data, dict) else ""
    giver = f"`{source}`" if source else "whoever started the run"
    size = f" of shape (n, {', '.join(map(str, shape))})" if shape else ""
    words = [f"A raw input is what {giver} gave: float32{size}, values as they came."]
    if steps is None:
        return [*words, "The run did not keep what was done to raw inputs: prepare them as for its training."]
    if steps.nothing:
        return [*words, "Nothing is done to raw inputs before the network sees them."]
    words += [f"`{file}` takes raw inputs and prepares them itself." for file in FOR_RAW if file in files]
    words += ["The bare network (`state_dict.*`, `model.safetensors`) does not: before it, in this order,", ""]
    if steps.shrink > 1:
        words += [f"- squares of {steps.shrink} x {steps.shrink} pixels are averaged;"]
    if steps.mean is not None and steps.deviation is not None:
        words += ["- every channel becomes (x - mean) / deviation, in float64, then float32:", ""]
        words += ["| channel | mean | deviation |", "|---|---|---|"]
        rows = enumerate(zip(steps.mean, steps.deviation, strict=True))
        words += [f"| {channel} | {mean!r} | {deviation!r} |" for channel, (mean, deviation) in rows]
    return [*words, "", "The same constants are in `spec.json` under `preprocessing`."]


def _loading(steps: Preprocessing | None, files: Sequence[str]) -> list[str]:
    lines = ["```python", "import torch", ""]
    if "model.pt2" in files:
        lines += ['outputs = torch.export.load("model.pt2").module()(raw)  # plain torch, no RelayTrain', ""]
    lines += ['weights = torch.load("state_dict.pt", weights_only=True)', "network.load_state_dict(weights)"]
    images = "raw"
    if steps is not None and steps.shrink > 1:
        images = f"torch.nn.functional.avg_pool2d(raw, {steps.shrink})"
    if steps is not None and steps.mean is not None:
        lines += ["", "import json", 'steps = json.load(open("spec.json"))["preprocessing"]']
        lines += ["constants = torch.tensor([steps['mean'], steps['deviation']], dtype=torch.float64)"]
        lines += ["mean, deviation = constants[:, :, None, None]"]
        images = f"(({images}.double() - mean) / deviation).float()"
    lines.append(f"outputs = network.eval()({images})")
    if "model.onnx" in files:
        lines += ["", "import onnxruntime", 'session = onnxruntime.InferenceSession("model.onnx")']
        lines += ["outputs = session.run(None, {session.get_inputs()[0].name: raw.numpy()})"]
    sizes = "`network` must have the sizes in `spec.json`: a pruned version has fewer channels than the full one."
    built = "`relaytrain.models.load_version` builds it so from `model.safetensors`."
    return [*lines, "```", "", sizes, built]
