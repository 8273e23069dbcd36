"""Malformed scenarios by hand: each must be refused in one message that names file, key, got and expected."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

BASE = """\
schema = 1
name = "base"

[target]
loss = 0.3
deadline = "10m"
probability = 0.9

[start]
loss = 1.0
version = "L"
nodes = "gold"

[[versions]]
name = "L"
parameters = 1000
flops_per_sample = "2 MFLOP"
[[versions]]
name = "S"
parameters = 100
flops_per_sample = 2e5

[[nodes]]
name = "a"
device = "box"
samples = 100
[[nodes]]
name = "b"
device = "jetson-nano"
samples = 50

[[node_sets]]
name = "gold"
nodes = ["a"]
[[node_sets]]
name = "iron"
nodes = ["a", "b"]

[devices.box]
flops_per_s = "1 GFLOP/s"
busy_w = "50 W"
idle_w = "5 W"
memory_bytes = "8 GiB"
bits_per_s = "100 Mbit/s"
j_per_bit = 1e-8

[[pairs]]
version = "L"
nodes = "gold"
seconds = "10s"
energy = "2 kJ"
[[pairs]]
version = "S"
nodes = "iron"

[[changes]]
from = "L on gold"
to = "S"
seconds = 1.5
energy = 3.0

[costs]
batch = 8

[law]
kind = "level"
robust_progress = 0.9
[[law.curves]]
floor = 0.1
drop = 0.9
scale = 5.0
power = 1.2
[[law.jumps]]
from = "L"
to = "S"
jump = 0.02

[planner]
rule = "adaptive"
seed = 7
[planner.grid]
loss_step = 0.01
time_step = "1s"

[world]
bias = 0.1
bias_range = [0.5, 1.5]
[world.random]
floor = [0.8, 1.2]
"""

EPOCH = """\
[target]
loss = 0.3
[[versions]]
name = "L"
[[node_sets]]
name = "gold"
[[pairs]]
version = "L"
nodes = "gold"
seconds = 1
energy = 1
[law]
kind = "epoch"
[[law.steps]]
change = [-0.1, -0.05]
[[law.jumps]]
jump = 0.01
"""


@dataclass(frozen=True)
class Case:
    """A file that must be refused, and a word its message must hold (the key, or what stands for it)."""

    id: str
    raw: bytes
    says: str
    suffix: str = ".toml"

    def write(self, folder: Path) -> Path:
        """The file, in `folder`."""
        path = folder / f"case{self.suffix}"
        path.write_bytes(self.raw)
        return path


CASES: list[Case] = []


def _add(id: str, text: str | bytes, says: str, suffix: str = ".toml") -> None:
    CASES.append(Case(id, text.encode() if isinstance(text, str) else text, says, suffix))


def _swap(id: str, old: str, new: str, says: str, base: str = BASE) -> None:
    assert base.count(old) >= 1, (id, old)
    _add(id, base.replace(old, new, 1), says)


# --- the file itself
_add("empty", "", "target")
_add("blank", "\n\n  \n", "target")
_add("comment-only", "# nothing here\n", "versions")
_add("latin1", BASE.encode().replace(b'"base"', b'"b\xe4se"'), "UTF-8")
_add("utf16", BASE.encode("utf-16"), "UTF-8")
_add("nul-byte", BASE.replace('"base"', '"ba\0se"'), "TOML")
_add("binary", bytes(range(256)) * 8, "UTF-8")
_add("two-megabytes", BASE + "# " + "x" * 2_000_000, "1 MiB")
_add("yaml-text", "target:\n  loss: 0.3\n", "TOML")
_add("yaml-suffix", "target:\n  loss: 0.3\n", "YAML", ".yaml")
_add("yml-suffix", "a: &a [*a]\n", "YAML", ".yml")
_add("ini-text", "[target\nloss = 0.3\n", "TOML")
_add("unclosed-string", BASE.replace('"base"', '"base'), "TOML")
_add("unclosed-list", BASE.replace('nodes = ["a", "b"]', 'nodes = ["a", "b"'), "TOML")
_add("missing-value", BASE.replace("loss = 0.3", "loss ="), "TOML")
_add("stray-text", BASE + "\nhello\n", "TOML")
_add("duplicate-key", BASE.replace("loss = 0.3", "loss = 0.3\nloss = 0.4"), "TOML")
_add("duplicate-table", BASE + '\n[target]\nmetric = "loss"\n', "TOML")
_add("duplicate-inline", BASE.replace("[costs]\nbatch = 8", "costs = {batch = 8, batch = 9}"), "TOML")
_add("table-over-list", BASE + "\n[versions]\nx = 1\n", "TOML")
_add("deep-lists", "x = " + "[" * 1000 + "]" * 1000, "nested")
_add("deep-lists-40", "x = " + "[" * 40 + "]" * 40, "nested")
_add("deep-inline", "x = " + "{a=" * 400 + "1" + "}" * 400, "nested")
_add("dotted-explosion", ".".join(["a"] * 200_000) + " = 1\n", "parts")
_add("dotted-header", "[" + ".".join(["a"] * 5_000) + "]\n", "parts")
_add("dotted-quoted", ".".join(['"a"'] * 5_000) + " = 1\n", "parts")
_add("huge-integer", BASE.replace("seed = 7", "seed = " + "9" * 5000), "expected")
_add("bad-date", BASE.replace("seed = 7", "seed = 2026-13-45"), "TOML")

# --- JSON
_JSON = json.dumps(
    {
        "target": {"loss": 0.3},
        "versions": [{"name": "L"}],
        "node_sets": [{"name": "g"}],
        "pairs": [{"version": "L", "nodes": "g", "seconds": 1, "energy": 1}],
        "law": {"kind": "level", "curves": [{"floor": 0.1, "drop": 0.9, "scale": 5, "power": 1}]},
    },
    indent=1,
)
for word in ("NaN", "Infinity", "-Infinity"):
    _add(f"json-{word}", _JSON.replace("0.3", word), word, ".json")
_add("json-empty", "", "JSON", ".json")
_add("json-cut", _JSON[:60], "JSON", ".json")
_add("json-list", "[1, 2]", "table", ".json")
_add("json-number", "3", "table", ".json")
_add("json-string", '"quickstart"', "table", ".json")
_add("json-null", "null", "table", ".json")
_add("json-duplicate", _JSON.replace('"loss": 0.3', '"loss": 0.3, "loss": 0.4'), "twice", ".json")
_add("json-trailing-comma", _JSON.replace("0.3", "0.3,"), "JSON", ".json")
_add("json-comment", "// hello\n" + _JSON, "JSON", ".json")
_add("json-deep", '{"a":' * 1000 + "1" + "}" * 1000, "nested", ".json")
_add("json-very-deep", "[" * 500_000, "nested", ".json")
_add("json-1e999", _JSON.replace("0.3", "1e999"), "target.loss", ".json")
_add("json-null-loss", _JSON.replace("0.3", "null"), "target.loss", ".json")
_add("json-null-name", _JSON.replace('"L"', "null", 1), "versions[0].name", ".json")
_add("json-string-number", _JSON.replace("0.3", '"0.3"'), "target.loss", ".json")
_add("json-digits", _JSON.replace("0.3", "9" * 6000), "expected", ".json")

# --- unknown and missing keys
_swap("unknown-top", "schema = 1", "schema = 1\ntargt = 1", "did you mean 'target'")
_swap("unknown-in-target", "probability = 0.9", "probabilty = 0.9", "did you mean 'probability'")
_swap("unknown-in-list", "parameters = 1000", "paramters = 1000", "versions[0].paramters")
_swap("unknown-in-law", "robust_progress = 0.9", "robust_progres = 0.9", "law.robust_progres")
_swap("unknown-in-grid", "loss_step = 0.01", "gamma = 0.01", "planner.grid.gamma")
_swap("unknown-table", "[costs]", "[cost]", "did you mean 'costs'")
_swap("wrong-case", "deadline =", "Deadline =", "target.Deadline")
_swap("python-name", "from =", "from_ =", "changes[0].from_")
_swap("no-target", "[target]\n", "[costs.x]\n", "target")
_swap("no-target-loss", "loss = 0.3\n", "", "target.loss")
_swap("no-version-name", 'name = "L"\n', "", "versions[0].name")
_swap("no-law-kind", 'kind = "level"\n', "", "law.kind")
_swap("no-law", "[law]", "[costs.y]", "law")
_swap("no-floor", "floor = 0.1\n", "", "law.curves")
_swap("no-grid-step", "loss_step = 0.01\n", "", "planner.grid.loss_step")
_swap("no-flops", "flops_per_s = ", "speed = ", "devices.box")
_swap("device-without-power", 'busy_w = "50 W"\n', "", "devices.box.busy_w")
_add("no-versions", BASE.replace("[[versions]]", "[[nodes]]"), "versions")
_add("no-node-sets", EPOCH.replace("[[node_sets]]", "[[nodes]]"), "node_sets")
_add(
    "empty-versions",
    EPOCH.replace('[[versions]]\nname = "L"\n', "").replace("[target]", "versions = []\n[target]"),
    "versions",
)

# --- wrong types
_swap("string-for-number", "loss = 0.3", 'loss = "0.3"', "target.loss")
_swap("string-integer", "seed = 7", 'seed = "7"', "planner.seed")
_swap("bool-for-number", "loss = 0.3", "loss = true", "target.loss")
_swap("bool-for-integer", "parameters = 1000", "parameters = true", "versions[0].parameters")
_swap("float-for-integer", "parameters = 1000", "parameters = 1000.5", "versions[0].parameters")
_swap("number-for-name", 'name = "base"', "name = 3", "name")
_swap("list-for-number", "loss = 0.3", "loss = [0.3]", "target.loss")
_swap("table-for-number", "loss = 0.3", "loss = {a = 1}", "target.loss")
_swap("number-for-table", '[target]\nloss = 0.3\ndeadline = "10m"\nprobability = 0.9\n', "target = 3\n", "target")
_swap("string-for-list", 'nodes = ["a", "b"]', 'nodes = "a"', "node_sets[1].nodes")
_swap("number-in-names", 'nodes = ["a", "b"]', 'nodes = ["a", 2]', "node_sets[1].nodes")
_swap("table-for-list", "[[changes]]", "[changes]", "changes")
_swap("date-for-duration", 'deadline = "10m"', "deadline = 2026-01-01", "target.deadline")
_swap("time-for-duration", 'deadline = "10m"', "deadline = 00:10:00", "target.deadline")
_swap("string-for-bool", "batch = 8", 'grow_back = "yes"', "costs.grow_back")
_swap("integer-for-bool", "batch = 8", "grow_back = 1", "costs.grow_back")
_swap("string-schema", "schema = 1", 'schema = "1"', "schema")
_swap("law-as-list", '[law]\nkind = "level"\nrobust_progress = 0.9\n', "", "law")

# --- numbers out of range
for label, value in {"nan": "nan", "inf": "inf", "minus-inf": "-inf", "negative": "-0.1", "1e308": "1e308"}.items():
    _swap(f"loss-{label}", "loss = 0.3", f"loss = {value}", "target.loss")
for label, value in {"zero": "0", "negative": "-5", "nan": "nan", "subnormal": "5e-324", "1e308": "1e308"}.items():
    _swap(f"deadline-{label}", 'deadline = "10m"', f"deadline = {value}", "target.deadline")
for label, value in {
    "zero": "0",
    "one": "1",
    "two": "2",
    "negative": "-0.5",
    "nan": "nan",
    "percent": '"95 %"',
}.items():
    _swap(f"probability-{label}", "probability = 0.9", f"probability = {value}", "target.probability")
for label, value in {"zero": "0", "negative": "-1", "nan": "nan", "subnormal": "1e-320"}.items():
    _swap(f"pair-seconds-{label}", 'seconds = "10s"', f"seconds = {value}", "pairs[0].seconds")
    _swap(f"pair-energy-{label}", 'energy = "2 kJ"', f"energy = {value}", "pairs[0].energy")
_swap("change-negative", "seconds = 1.5", "seconds = -1.5", "changes[0].seconds")
_swap("change-nan", "energy = 3.0", "energy = nan", "changes[0].energy")
_swap("parameters-zero", "parameters = 1000", "parameters = 0", "versions[0].parameters")
_swap("parameters-negative", "parameters = 1000", "parameters = -5", "versions[0].parameters")
_swap("parameters-huge", "parameters = 1000", "parameters = 99999999999999999999", "versions[0].parameters")
_swap("samples-zero", "samples = 100", "samples = 0", "nodes[0].samples")
_swap("bandwidth-zero", 'bits_per_s = "100 Mbit/s"', "bits_per_s = 0", "devices.box.bits_per_s")
_swap("power-zero", 'busy_w = "50 W"', "busy_w = 0", "devices.box.busy_w")
_swap("power-negative", 'idle_w = "5 W"', 'idle_w = "-5 W"', "devices.box.idle_w")
_swap("flops-zero", 'flops_per_s = "1 GFLOP/s"', "flops_per_s = 0.0", "devices.box.flops_per_s")
_swap("loss-step-zero", "loss_step = 0.01", "loss_step = 0", "planner.grid.loss_step")
_swap("loss-step-negative", "loss_step = 0.01", "loss_step = -0.01", "planner.grid.loss_step")
_swap("loss-step-inf", "loss_step = 0.01", "loss_step = inf", "planner.grid.loss_step")
_swap("time-step-zero", 'time_step = "1s"', 'time_step = "0s"', "planner.grid.time_step")
_swap("seed-negative", "seed = 7", "seed = -1", "planner.seed")
_swap("seed-large", "seed = 7", "seed = 4294967296", "planner.seed")
_swap("scale-zero", "scale = 5.0", "scale = 0", "law.curves[0].scale")
_swap("scale-inf", "scale = 5.0", "scale = inf", "law.curves[0].scale")
_swap("drop-zero", "drop = 0.9", "drop = 0", "law.curves[0].drop")
_swap("drop-negative", "drop = 0.9", "drop = -0.9", "law.curves[0].drop")
_swap("power-exponent-zero", "power = 1.2", "power = 0", "law.curves[0].power")
_swap("power-exponent-large", "power = 1.2", "power = 1e9", "law.curves[0].power")
_swap("floor-negative", "floor = 0.1", "floor = -0.1", "law.curves[0].floor")
_swap("progress-negative", "robust_progress = 0.9", "robust_progress = -1", "law.robust_progress")
_swap("progress-empty-list", "power = 1.2", "power = 1.2\nprogress = []", "law.curves[0].progress")
_swap("jump-nan", "jump = 0.02", "jump = nan", "law.jumps[0].jump")
_swap("jump-minus-inf", "jump = 0.02", "jump = -inf", "law.jumps[0].jump")
_swap("jump-slope-inf", "jump = 0.02", "jump_per_loss = inf", "law.jumps[0].jump_per_loss")
_swap("epochs-zero", "probability = 0.9", "max_epochs = 0", "target.max_epochs")
_swap("bias-negative", "bias = 0.1", "bias = -0.1", "world.bias")
_swap("range-of-three", "bias_range = [0.5, 1.5]", "bias_range = [0.5, 1.0, 1.5]", "world.bias_range")
_swap("range-reversed", "bias_range = [0.5, 1.5]", "bias_range = [1.5, 0.5]", "world.bias_range")
_swap("random-range-reversed", "floor = [0.8, 1.2]", "floor = [1.2, 0.8]", "world.random.floor")
_swap("random-range-nan", "floor = [0.8, 1.2]", "floor = [nan, 1.2]", "world.random.floor")
_swap("schema-newer", "schema = 1", "schema = 99", "newer relaytrain")
_swap("schema-zero", "schema = 1", "schema = 0", "schema")
_swap("grid-too-fine", "loss_step = 0.01", "loss_step = 1e-9", "states")
_swap("grid-without-deadline", 'deadline = "10m"\n', "", "planner.grid")

# --- quantities
for label, value in {
    "no-unit": "10",
    "word": "soon",
    "wrong-unit": "10 kg",
    "empty": "",
    "reversed": "5s10m",
    "twice": "5m5m",
    "negative": "-5m",
    "comma": "1,5h",
    "unicode": "１０m",
    "long": "1" * 200 + "s",
    "nan": "nan",
    "inf-text": "inf",
}.items():
    _swap(f"duration-{label}", 'deadline = "10m"', f'deadline = "{value}"', "target.deadline")
_swap("energy-unit", 'energy = "2 kJ"', 'energy = "2 kW"', "pairs[0].energy")
_swap("energy-case", 'energy = "2 kJ"', 'energy = "2 KJ"', "pairs[0].energy")
_swap("power-unit", 'busy_w = "50 W"', 'busy_w = "50 J"', "devices.box.busy_w")
_swap("bytes-unit", 'memory_bytes = "8 GiB"', 'memory_bytes = "8 Gib"', "devices.box.memory_bytes")
_swap("rate-unit", 'bits_per_s = "100 Mbit/s"', 'bits_per_s = "100 Mbit"', "devices.box.bits_per_s")
_swap("plain-units-mixed", "[target]", '[units]\ntime = "units"\n[target]', "units.time")

# --- names
for label, value in {"empty": "", "slash": "a/b", "dots": "a..b", "parent": "..", "hidden": ".a", "nul": "a\\u0000b",
                     "rtl": "a\\u202eb", "space": "a b", "newline": "a\\nb", "long": "x" * 65,
                     "very-long": "x" * 10_000,
                     "star": "*", "dash": "-a", "accent": "é", "emoji": "\\U0001F600", "backslash": "a\\\\b",
                     "quote": "a'b", "html": "<b>"}.items():  # fmt: skip
    _swap(f"name-{label}", 'name = "b"', f'name = "{value}"', "nodes[1].name")
_swap("scenario-name-path", 'name = "base"', 'name = "../base"', "name")
_swap("unit-control", "[target]", '[units]\ntime = "\\u001b[31m"\n[target]', "units.time")
_swap("device-name", "[devices.box]", '[devices."bo/x"]', "devices")

# --- references
_swap("duplicate-version", 'name = "S"', 'name = "L"', "versions[1].name")
_swap("duplicate-node", 'name = "b"', 'name = "a"', "nodes[1].name")
_swap("duplicate-set", 'name = "iron"', 'name = "gold"', "node_sets[1].name")
_swap("duplicate-pair", 'version = "S"\nnodes = "iron"', 'version = "L"\nnodes = "gold"', "pairs[1]")
_swap("node-twice-in-set", 'nodes = ["a", "b"]', 'nodes = ["a", "a"]', "node_sets[1].nodes")
_swap("missing-node", 'nodes = ["a", "b"]', 'nodes = ["a", "c"]', "node_sets[1].nodes")
_swap("missing-device", 'device = "jetson-nano"', 'device = "jetson-nan"', "did you mean 'jetson-nano'")
_swap("missing-version-in-pair", 'version = "S"\nnodes = "iron"', 'version = "XL"\nnodes = "iron"', "pairs[1].version")
_swap("missing-set-in-pair", 'version = "S"\nnodes = "iron"', 'version = "S"\nnodes = "irn"', "did you mean 'iron'")
_swap("missing-start", 'version = "L"\nnodes = "gold"\n\n', 'version = "L"\nnodes = "iron"\n\n', "start")
_swap("change-from-nowhere", 'from = "L on gold"', 'from = "Q on gold"', "changes[0].from")
_swap("change-on-nothing", 'from = "L on gold"', 'from = "L on "', "changes[0].from")
_swap("change-kind", "seconds = 1.5", 'kind = "model"', "changes[0].kind")
_swap("jump-to-nowhere", 'to = "S"\njump', 'to = "T"\njump', "law.jumps[0].to")
_swap("curve-of-nothing", "floor = 0.1", 'version = "T"\nfloor = 0.1', "law.curves[0].version")
_swap("law-kind", 'kind = "level"', 'kind = "levle"', "did you mean 'level'")
_swap("rule", 'rule = "adaptive"', 'rule = "adaptve"', "did you mean 'adaptive'")
_swap("planner-name", 'rule = "adaptive"', 'name = "packt"', "planner.name")
_swap("mode", 'nodes = ["a", "b"]', 'nodes = ["a", "b"]\nmode = "pipelined"', "node_sets[1].mode")
_swap("metric", "probability = 0.9", 'metric = "accuracy"', "target.metric")
_swap("target-on", "probability = 0.9", 'on = "everything"', "target.on")
_swap("no-cost-to-model", "flops_per_sample = 2e5\n", "", "pairs[1].seconds")
_swap("no-device-to-model", 'device = "jetson-nano"\n', "", "pairs[1].seconds")
_swap("no-samples-to-model", "samples = 50\n", "", "pairs[1].seconds")
_add(
    "all-infinite", BASE.replace('seconds = "10s"', "seconds = inf").replace("seconds = 1.5", "seconds = inf"), "pairs"
)
_swap(
    "nothing-fits",
    'memory_bytes = "8 GiB"',
    'memory_bytes = "1 kB"',
    "pairs",
    BASE.replace('seconds = "10s"\nenergy = "2 kJ"\n', ""),
)

# --- epoch law
_swap("steps-empty", "change = [-0.1, -0.05]", "change = []", "law.steps[0].change", EPOCH)
_swap("steps-nan", "change = [-0.1, -0.05]", "change = [-0.1, nan]", "law.steps[0].change", EPOCH)
_swap("steps-inf", "change = [-0.1, -0.05]", "change = [inf]", "law.steps[0].change", EPOCH)
_swap("steps-strings", "change = [-0.1, -0.05]", 'change = ["-0.1"]', "law.steps[0].change", EPOCH)
_swap("steps-missing", "[[law.steps]]\nchange = [-0.1, -0.05]\n", "", "law.steps", EPOCH)
_swap("steps-in-level", 'kind = "epoch"', 'kind = "level"', "law.steps", EPOCH)
_swap("curves-in-epoch", "[[law.jumps]]", "[[law.curves]]\nfloor = 0.1\n[[law.jumps]]", "law.curves", EPOCH)
_swap(
    "slope-in-epoch",
    "jump = 0.01",
    "jump_per_loss = 0.1",
    "law.jumps",
    EPOCH.replace('name = "L"\n', 'name = "L"\n[[versions]]\nname = "S"\n').replace(
        "[law]", '[[pairs]]\nversion = "S"\nnodes = "gold"\nseconds = 1\nenergy = 1\n[law]'
    ),
)
_swap("random-with-epoch", "[law]", "[world.random]\n[law]", "world.random", EPOCH)
_swap("jump-list-in-level", "jump = 0.02", "jump = [0.02, 0.01]", "law.jumps[0].jump")


# --- sizes
def _many(count: int, instead_of_pairs: str) -> str:
    """`EPOCH` with so many versions and node sets, and something else in place of its pair."""
    text = EPOCH.replace('[[versions]]\nname = "L"\n', "".join(f'[[versions]]\nname = "v{i}"\n' for i in range(count)))
    sets = "".join(f'[[node_sets]]\nname = "n{i}"\n' for i in range(count))
    pair = '[[pairs]]\nversion = "L"\nnodes = "gold"\nseconds = 1\nenergy = 1\n'
    return text.replace('[[node_sets]]\nname = "gold"\n', sets).replace(pair, instead_of_pairs)


_add("many-pairs", _many(60, ""), "pairs")
_add("many-nodes", BASE + "".join(f'[[nodes]]\nname = "n{i}"\n' for i in range(10_001)), "nodes")
_add("many-versions", BASE + "".join(f'[[versions]]\nname = "n{i}"\n' for i in range(70)), "versions")
_add("many-changes", BASE + "[[changes]]\n" * 5000, "changes")
_add("long-description", BASE.replace('name = "base"', f'description = "{"x" * 5000}"'), "description")
_add("open-table-deep", BASE + "[training]\nx = " + "[" * 12 + "]" * 12 + "\n", "training")
_add("open-table-inf", BASE + "[training]\nrate = inf\n", "training")
_add("open-table-date", BASE + "[data]\nwhen = 2026-01-01\n", "data")
_add("open-table-key", BASE + '[prior]\n"a/b" = 1\n', "prior")
_add("open-table-large", BASE + "[data]\nx = [" + "1," * 10_001 + "]\n", "data")
_add("many-rules", _many(16, "[[changes]]\n" * 1000), "changes")
