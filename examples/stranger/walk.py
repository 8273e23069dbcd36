"""From nothing to an exported network of one's own: new, validate, doctor, run, export.

python examples/stranger/walk.py FOLDER
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
EDITS = [
    "target.loss=0.3",
    "target.deadline=90s",
    "start.loss=1.1",
    # the network, as `relaytrain doctor` counts it
    "versions.full.parameters=3171",
    "versions.full.flops_per_sample=569 kFLOP",
    "versions.full.activation_bytes_per_sample=18 kB",
    "versions.small.parameters=740",
    "versions.small.flops_per_sample=123 kFLOP",
    "versions.small.activation_bytes_per_sample=9 kB",
    # the nodes: a server in the laboratory, two sensors that cannot hold the full network
    "devices.sensor.flops_per_s=5 MFLOP/s",
    "devices.sensor.busy_w=0.5",
    "devices.sensor.memory_bytes=512 kB",
    'nodes=[{name = "server", device = "laptop-cpu", samples = 600}, '
    '{name = "box-1", device = "sensor", samples = 120}, {name = "box-2", device = "sensor", samples = 120}]',
    'node_sets=[{name = "cloud", nodes = ["server"]}, {name = "edge", nodes = ["box-1", "box-2"]}]',
    "pairs=[]",
    "start.nodes=cloud",
    "versions.small.ratio=0.75",
    "data.partition=parts",
    "data.nodes.server=lab",
    "data.nodes.box-1=field",
    "data.nodes.box-2=field",
    # how they learn, from a few trials: the laboratory soon teaches nothing more about the field, least of all to the
    # small network, and the sensors learn slowly
    "law.kind=level",
    "law.curves=["
    '{nodes = "cloud", floor = 0.62, drop = 0.48, scale = 4, power = 1.3}, '
    '{nodes = "cloud", version = "small", floor = 0.85, drop = 0.25}, '
    '{nodes = "edge", floor = 0.05, drop = 1.05, scale = 12, power = 1.3}]',
    "training.lr=0.02",
    "training.batch=32",
]
"""What a stranger writes into the skeleton; here as `--set`, so that the walk can be repeated."""


def relaytrain(folder: Path, *words: str) -> str:
    """Run a verb in `folder`; its words, or the end of the walk."""
    print("$ relaytrain", *words, flush=True)
    environment = {**os.environ, "RELAYTRAIN_STORE": str(folder / "runs"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "relaytrain", *words],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    print(done.stderr + done.stdout, flush=True)
    if done.returncode != 0:
        raise SystemExit(f"relaytrain {words[0]} ended with status {done.returncode}")
    return done.stdout


def main(folder: Path) -> None:
    """The whole walk."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "waves.py", folder)
    relaytrain(folder, "new", "waves.toml", "--model", "waves:network", "--data", "waves:waves", "--force")
    sets = [word for edit in EDITS for word in ("--set", edit)]
    relaytrain(folder, "validate", "waves.toml", *sets)
    relaytrain(folder, "doctor", "waves.toml", *sets)
    relaytrain(folder, "run", "waves.toml", "--name", "waves-first", *sets)
    relaytrain(folder, "export", "waves-first", "trained", "--model", "waves:network", "--input", "1,1,32", "--force")
    print("exported:", *sorted(path.name for path in (folder / "trained").iterdir()))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "waves-relay").resolve())
