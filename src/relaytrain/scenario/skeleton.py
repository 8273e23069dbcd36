"""The skeleton that `relaytrain new` writes: a commented scenario that validates as it stands."""

from __future__ import annotations

_TEXT = """\
#:schema ./scenario.schema.json
# A RelayTrain scenario. For completion in your editor: relaytrain schema > scenario.schema.json
# Check it:  relaytrain validate {file}      Plan it:  relaytrain plan {file}
# Try a value without editing:  relaytrain plan {file} --set target.loss=0.3 --set target.deadline=20m
schema = 1
name = "{name}"

[target]
loss = 0.40                # the loss to reach ...
deadline = "1h"            # ... by when ("10m", "7m40", "1h30m"; inf: no deadline) ...
probability = 0.95         # ... and how surely

[start]
loss = 2.3                 # before the first epoch; ln(classes) for an untrained classifier
version = "full"
nodes = "cloud"

# The versions of your network, largest first. FLOPs: one forward and backward pass of one sample.
[[versions]]
name = "full"
parameters = 1_000_000
flops_per_sample = "60 MFLOP"
activation_bytes_per_sample = "400 kB"
[[versions]]
name = "small"
parameters = 250_000
flops_per_sample = "15 MFLOP"
activation_bytes_per_sample = "200 kB"

# The devices. Shipped profiles: {devices}; or write your own as [devices.NAME].
[[nodes]]
name = "server"
device = "rtx-a4000"
samples = 20_000
[[nodes]]
name = "box-1"
device = "jetson-nano"
samples = 2_000
[[nodes]]
name = "box-2"
device = "jetson-nano"
samples = 2_000

# Nodes that train together.
[[node_sets]]
name = "cloud"
nodes = ["server"]
[[node_sets]]
name = "edge"
nodes = ["box-1", "box-2"]

# Every version on every node set is considered, with modelled seconds and energy. To fix some of them, or to write
# measured figures, list the pairs; inf forbids. Changes of pair likewise.
# [[pairs]]
# version = "full"
# nodes = "cloud"
# seconds = "12s"
# energy = "1.5 kJ"
# [[changes]]
# from = "full on cloud"
# to = "small"
# seconds = "3s"
# energy = "40 J"

# How the loss falls is not known yet, so there is no [law]: plans are guesses, a run learns from its own losses as it
# goes, and `relaytrain scout {file} --budget 3x` trains a few relays to know more before the first run.
"""


def new_scenario_text(name: str = "my", *, file: str | None = None) -> str:
    """A commented scenario; `file` is how commands name it."""
    from ..costs.devices import load_devices

    return _TEXT.format(name=name, file=file or f"{name}.toml", devices=", ".join(load_devices()))
