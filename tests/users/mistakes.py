"""Kinds of mistakes that users make with code, data and scenarios of their own, and what has to be said about each.

A mistake is a package as it should be (`GOOD`) with one thing changed. `validate` reads the scenario alone; `doctor`
must find all that can be known before any training; `run` must refuse with the user's file and line where the user's
code is at fault. Exit status 3 is the user's scenario, data or code, 2 the call's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forked import Call, relaytrain

MODULE = """\
import numpy as np
import torch
from torch import nn

SIZE = 3


def net():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)
    )


def draw(count, seed):
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    images = rng.normal(0.0, 0.3, (count, 1, 4, 4)) + labels[:, None, None, None]
    return images.astype(np.float32), labels


def data():
    return {"many": draw(60, 0), "few": draw(40, 1), "validation": draw(30, 2), "test": draw(30, 3)}


def loss(outputs, labels):
    return nn.functional.cross_entropy(outputs, labels)
"""

SCENARIO = """\
schema = 1
name = "mine"
[target]
loss = 0.9
deadline = "10m"
probability = 0.8
[start]
loss = 1.1
version = "full"
nodes = "cloud"
[[versions]]
name = "full"
factory = "mine:net"
parameters = 123
flops_per_sample = "4752 FLOP"
activation_bytes_per_sample = "1 kB"
[[versions]]
name = "small"
ratio = 0.4
parameters = 93
flops_per_sample = "3564 FLOP"
activation_bytes_per_sample = "700 B"
[[nodes]]
name = "server"
device = "bench"
samples = 60
[[nodes]]
name = "box-1"
device = "bench"
samples = 20
[[nodes]]
name = "box-2"
device = "bench"
samples = 20
[[node_sets]]
name = "cloud"
nodes = ["server"]
[[node_sets]]
name = "edge"
nodes = ["box-1", "box-2"]
[devices.bench]
flops_per_s = "1 MFLOP/s"
busy_w = "2 W"
memory_bytes = "1 MB"
[law]
kind = "level"
[[law.curves]]
floor = 0.2
drop = 0.9
scale = 3
power = 2
[training]
optimizer = "adam"
lr = 0.01
batch = 10
[data]
source = "mine:data"
partition = "parts"
[data.nodes]
server = "many"
box-1 = "few"
box-2 = "few"
"""

CODE = "{code}"
"""In an expectation: the user's file and the line that is marked with `# here`."""


def changed(text: str, changes: Mapping[str, str]) -> str:
    """`text` with every one of `changes` made; none may miss."""
    for before, after in changes.items():
        assert before in text, before
        text = text.replace(before, after)
    return text


def written(folder: Path, module: str, scenario: str) -> str:
    """A stranger's package in `folder`; its module."""
    (folder / "mine.py").write_text(module)
    (folder / "mine.toml").write_text(scenario)
    return module


@dataclass(frozen=True)
class Mistake:
    """One thing done wrong: replacements in module and scenario, options of the call, and what must be said.

    `validate`, `doctor` and `run` are (exit status, pattern); `validate` is content (0) where it cannot know.
    """

    name: str
    doctor: tuple[int, str]
    run: tuple[int, str]
    validate: tuple[int, str] = (0, "valid: mine")
    module: Mapping[str, str] = field(default_factory=dict)
    scenario: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    file: str = "mine.toml"
    slow: bool = False

    def write(self, folder: Path) -> int | None:
        """The package with the mistake in it; the line that is at fault, if one is marked."""
        module = written(folder, changed(MODULE, self.module), changed(SCENARIO, self.scenario))
        marked = [number for number, line in enumerate(module.splitlines(), 1) if "# here" in line]
        return marked[0] if marked else None

    def said(self, verb: str, folder: Path) -> Call:
        """What `verb` says about it. Only `run` knows options such as `--fitted`."""
        return relaytrain(verb, self.file, *(self.options if verb == "run" else ()), folder=folder)

    def expected(self, verb: str, line: int | None) -> tuple[int, re.Pattern[str]]:
        """Status and pattern for `verb`."""
        status, pattern = getattr(self, verb)
        return status, re.compile(pattern.replace(CODE, rf"mine\.py(:|\D{{1,9}}){line}\b"), re.IGNORECASE | re.DOTALL)


def both(pattern: str, status: int = 3) -> dict[str, tuple[int, str]]:
    """`doctor` and `run` say the same."""
    return {"doctor": (status, pattern), "run": (status, pattern)}


def every(pattern: str, status: int = 3) -> dict[str, tuple[int, str]]:
    """All three say the same: it is in the scenario file."""
    return {**both(pattern, status), "validate": (status, pattern)}


def _scenario(name: str, pattern: str, before: str, after: str) -> Mistake:
    return Mistake(name, **every(pattern), scenario={before: after})


_DATA = 'return {"many": draw(60, 0), "few": draw(40, 1), "validation": draw(30, 2), "test": draw(30, 3)}'
LAYERS = """\
nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)"""
_LOSS = {'optimizer = "adam"': 'optimizer = "adam"\nloss = "mine:loss"'}
_CROSS = "return nn.functional.cross_entropy(outputs, labels)"
_LATER = """\
class Later(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.steps = inner, 0

    def forward(self, images):
        if self.training and images.shape[0] == 10 and torch.is_grad_enabled():
            Later.seen = getattr(Later, "seen", 0) + 1
            if Later.seen > 8:
                raise RuntimeError("the scale slipped")  # here
        return self.inner(images)


def net():
    return Later(nn.Sequential("""

MISTAKES = [
    # the scenario file: `validate` knows
    Mistake("no such file", **every(r"mne\.toml.*did you mean|mne\.toml.*no such file"), file="mne.toml"),
    _scenario("broken TOML", r"mine\.toml:3: ", "[target]", "[target"),
    _scenario("unknown key", r"mine\.toml:\d+: training\.learning_rate", "lr = 0.01", "learning_rate = 0.01"),
    _scenario("negative lr", r"mine\.toml:\d+: training\.lr: got -0\.1", "lr = 0.01", "lr = -0.1"),
    _scenario("batch of one", r"mine\.toml:\d+: training\.batch: got 1", "batch = 10", "batch = 1"),
    _scenario("probability above one", r"target\.probability: got 1\.5", "probability = 0.8", "probability = 1.5"),
    _scenario("deadline in words", r"target\.deadline: got .soon", '"10m"', '"soon"'),
    _scenario("text for a number", r"target\.loss: got .low", "loss = 0.9", 'loss = "low"'),
    _scenario("node set of an unknown node", r"node_sets.*box-3.*did you mean", '"box-1", "box-2"', '"box-1", "box-3"'),
    _scenario(
        "start on an unknown node set",
        r"mine\.toml:7: start.*full on clouds",
        'nodes = "cloud"\n[[v',
        'nodes = "clouds"\n[[v',
    ),
    _scenario("no network for a version", r"versions.*full.*factory", 'factory = "mine:net"\n', ""),
    _scenario("reference without a module", r"versions.*factory: got .net", '"mine:net"', '"net"'),
    _scenario(
        "unknown device profile",
        r"nodes.*device.*bensch",
        'device = "bench"\nsamples = 60',
        'device = "bensch"\nsamples = 60',
    ),
    _scenario(
        "no samples at a node",
        r"nodes.*box-1.*samples|samples: got 0",
        "samples = 20\n[[nodes]]",
        "samples = 0\n[[nodes]]",
    ),
    _scenario(
        "memory too small for any version", r"memory|needs .* has", 'memory_bytes = "1 MB"', 'memory_bytes = "100 B"'
    ),
    # references: found before any data are read
    Mistake("module that is not there", **both(r"nowhere"), scenario={'"mine:net"': '"nowhere:net"'}),
    Mistake("function that is not there", **both(r"mine:nett.*\bnet\b"), scenario={'"mine:net"': '"mine:nett"'}),
    Mistake("factory that is no function", **both(r"mine:SIZE.*int.*function"), scenario={'"mine:net"': '"mine:SIZE"'}),
    Mistake(
        "package that is not installed",
        **both(rf"{CODE}.*no_such_package"),
        module={"import torch\n": "import torch\nimport no_such_package  # here\n"},
    ),
    Mistake("module with a syntax error", **both(CODE), module={"SIZE = 3": "SIZE = = 3  # here"}),
    Mistake(
        "module that fails on import",
        **both(rf"{CODE}.*ZeroDivisionError"),
        module={"SIZE = 3": "SIZE = 3 / 0  # here"},
    ),
    # the user's factory
    Mistake(
        "exception in the factory",
        **both(rf"{CODE}.*no licence"),
        module={"def net():\n": "def net():\n    raise ValueError('no licence')  # here\n"},
    ),
    Mistake(
        "factory that asks for arguments", **both(r"mine:net.*argument.*width"), module={"def net()": "def net(width)"}
    ),
    Mistake(
        "factory that returns no module",
        **both(r"mine:net.*returned dict"),
        module={"return nn.Sequential(": "return {'layers': 3} or nn.Sequential("},
    ),
    Mistake(
        "network without parameters",
        **both(r"no (trainable )?parameters"),
        module={LAYERS: "nn.AdaptiveAvgPool2d(1), nn.Flatten()"},
    ),
    Mistake(
        "channels that do not fit",
        **both(r"forward.*channels|channels.*input"),
        module={"nn.Conv2d(1, 8": "nn.Conv2d(3, 8"},
    ),
    Mistake(
        "five outputs for ten classes",
        **both(r"5 outputs.*10 classes|10 classes.*5"),
        module={"nn.Linear(8, 3)": "nn.Linear(8, 5)", "% 3": "% 10"},
    ),
    Mistake(
        "labels that start at one",
        **both(r"3 outputs.*4 classes|label 3"),
        module={"labels = np.arange(count) % 3": "labels = np.arange(count) % 3 + 1"},
    ),
    Mistake(
        "forward returns a pair",
        **both(r"return.* tuple"),
        module={
            "def net():\n    return nn.Sequential(": "class Two(nn.Sequential):\n    def forward(self, images):\n"
            "        return super().forward(images), images\n\n\ndef net():\n    return Two("
        },
    ),
    Mistake(
        "forward fixes a size",
        **both(r"0|prun.*(flatten|shape)"),
        module={
            "nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)": "nn.Flatten(), nn.Unflatten(1, (8, 16)), "
            "nn.Flatten(), nn.Linear(128, 3)"
        },
        slow=True,
    ),
    # the user's data
    Mistake(
        "missing file", **both(rf"{CODE}.*images\.npz"), module={_DATA: "return dict(np.load('images.npz'))  # here"}
    ),
    Mistake(
        "exception in the loader", **both(rf"{CODE}.*KeyError.*attic"), module={_DATA: "return {}['attic']  # here"}
    ),
    Mistake("loader that ends the process", **both(CODE), module={_DATA: "raise SystemExit('no data today')  # here"}),
    Mistake("loader that returns nothing", **both(r"mine:data.*NoneType"), module={_DATA: "return None"}),
    Mistake(
        "images without channels",
        **both(r"mine:data many.*\(60, 4, 4\).*channels"),
        module={"return images.astype(np.float32), labels": "return images[:, 0].astype(np.float32), labels"},
    ),
    Mistake(
        "fewer labels than images",
        **both(r"mine:data many.*labels.*\(59,\)"),
        module={"return images.astype(np.float32), labels": "return images.astype(np.float32), labels[1:]"},
    ),
    Mistake(
        "NaN in the data",
        **both(r"mine:data many.*NaN.*number 7"),
        module={"    return images.astype": "    images[7] = np.nan\n    return images.astype"},
    ),
    Mistake(
        "labels out of range",
        **both(r"mine:data many.*-1"),
        module={"labels = np.arange(count) % 3": "labels = np.arange(count) % 3 - 1"},
    ),
    Mistake(
        "labels that are no whole numbers",
        **both(r"mine:data many.*whole"),
        module={"return images.astype(np.float32), labels": "return images.astype(np.float32), labels / 2"},
    ),
    Mistake(
        "one class only",
        **both(r"mine:data many.*class 0"),
        module={"labels = np.arange(count) % 3": "labels = np.arange(count) * 0"},
    ),
    Mistake("no images at all", **both(r"mine:data few.*no images"), module={"draw(40, 1)": "draw(0, 1)"}),
    Mistake("no test set", **both(r"mine:data|data\.source.*test"), module={', "test": draw(30, 3)': ""}),
    Mistake(
        "test images of another shape",
        **both(r"test.*\[1, 2, 2\].*\[1, 4, 4\]"),
        module={'"test": draw(30, 3)': '"test": (draw(30, 3)[0][:, :, :2, :2], draw(30, 3)[1])'},
    ),
    Mistake(
        "no data at a node",
        **both(r"data\.nodes\.box-1.*attic.*many, few"),
        scenario={'box-1 = "few"': 'box-1 = "attic"'},
    ),
    Mistake(
        "more samples than there are",
        **both(r"81.*40"),
        scenario={"samples = 20\n[[nodes]]": "samples = 61\n[[nodes]]"},
    ),
    Mistake(
        "one image at a node under batch norm",
        **both(r"box-1.*(1|one) image.*batch norm"),
        module={LAYERS: "nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)"},
        scenario={"samples = 20\n[[nodes]]": "samples = 1\n[[nodes]]"},
    ),
    Mistake(
        "data folder that is not there",
        **both(r"nowhere"),
        scenario={
            'source = "mine:data"\npartition = "parts"': 'source = "mnist"\nfolder = "nowhere"\npartition = "iid"',
            '[data.nodes]\nserver = "many"\nbox-1 = "few"\nbox-2 = "few"\n': "",
        },
    ),
    # the user's loss and the machine
    Mistake(
        "exception in the loss",
        **both(rf"{CODE}.*no such weight"),
        module={_CROSS: "raise IndexError('no such weight')  # here"},
        scenario=_LOSS,
    ),
    Mistake(
        "loss of every sample instead of one",
        **both(r"mine:loss.*\[\d+\].*(one number|scalar|mean)"),
        module={_CROSS: "return nn.functional.cross_entropy(outputs, labels, reduction='none')"},
        scenario=_LOSS,
    ),
    Mistake(
        "exception in training only, later",
        doctor=(0, "healthy"),
        run=(3, rf"{CODE}.*the scale slipped"),
        module={"def net():\n    return nn.Sequential(": _LATER, "    )\n\n\ndef draw": "    ))\n\n\ndef draw"},
    ),
    Mistake(
        "device that is not there",
        **both(r"server.*cuda|cuda.*server"),
        scenario={"batch = 10": 'batch = 10\ndevices = {server = "cuda"}'},
    ),
    Mistake(
        "start file that is not there",
        **both(r"training\.start.*first\.safetensors"),
        scenario={"batch = 10": 'batch = 10\nstart = "first.safetensors"'},
    ),
    Mistake(
        "fitted file that is not there",
        doctor=(0, "healthy"),
        run=(3, r"fit\.npz.*relaytrain fit"),
        options=("--fitted", "fit.npz"),
    ),
    Mistake(
        "losses that are no numbers",
        doctor=(0, "healthy"),
        run=(8, r"smaller lr"),
        scenario={"lr = 0.01": "lr = 999.0", '"adam"': '"sgd"'},
    ),
]
