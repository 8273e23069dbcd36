"""Links between stages: TLS sockets beside plain gloo, the same tensors between the same two processes.

    python benchmarks/pipeline_links.py [--repeats 5]

Both on loopback, interleaved; what TLS costs is CPU, which a slower wire hides.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from machine import calibrated

from relaytrain.executors.flower.environment import free_ports
from relaytrain.executors.flower.security import make_certificates

SIZES = {"64 KiB": (2**14, 200), "1 MiB": (2**18, 60), "8 MiB": (2**21, 12)}
"""Floats in a tensor, and how many are sent."""
NAMES = ("one", "two")


def play(rank: int, folder: Path, ports: list[int], repeats: int) -> None:
    """One of the two processes: rank 0 sends and measures until all has arrived, rank 1 receives."""
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore

    from relaytrain.pipeline.host_links import HostLinks, JobKey, StagePlace
    from relaytrain.pipeline.links import GlooLinks

    torch.set_num_threads(1)
    store, limit = FileStore(str(folder / "store"), 2), timedelta(seconds=120)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=limit)
    places = [StagePlace(name, "127.0.0.1", port) for name, port in zip(NAMES, ports, strict=True)]
    certs, job = folder / "nodes" / NAMES[rank], JobKey("bench", b"")
    kinds = {"gloo": GlooLinks(), "tls": HostLinks(rank, places, certs, job, 120.0)}
    rows, tag = [], 10
    for repeat in range(repeats + 1):
        for size, (floats, count) in SIZES.items():
            tensor = torch.rand(floats)
            for kind, links in kinds.items():
                tag += 1
                dist.barrier()
                wall, cpu = time.monotonic(), time.process_time()
                if rank == 0:
                    link = links.sender(1, tag)
                    for _ in range(count):
                        link.send(tensor)
                    link.close()
                else:
                    end = links.receiver(0, tag, iter([((floats,), torch.float32)] * count))
                    for _ in range(count):
                        end.recv()
                dist.barrier()
                taken = {"wall_s": time.monotonic() - wall, "cpu_s": time.process_time() - cpu}
                if repeat:  # the first one warms up
                    rows.append({"size": size, "kind": kind, "bytes": 4 * floats * count, **taken})
    (folder / f"{rank}.json").write_text(json.dumps(rows))
    dist.destroy_process_group()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--play", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.play is not None:
        rank, folder, ports, repeats = asked.play
        play(int(rank), Path(folder), json.loads(ports), int(repeats))
        return
    with tempfile.TemporaryDirectory(prefix="rtb-") as made, calibrated():
        make_certificates(Path(made), (), NAMES)
        ports = json.dumps(free_ports(2))
        each = [
            subprocess.Popen([sys.executable, __file__, "--play", str(rank), made, ports, str(asked.repeats)])
            for rank in range(2)
        ]
        assert [one.wait() for one in each] == [0, 0]
        sides: list[list[dict[str, Any]]] = [json.loads((Path(made) / f"{rank}.json").read_text()) for rank in range(2)]
    print(f"{'tensor':>10}{'':>6}{'MB/s':>10}{'CPU s/GB, both ends':>22}   (medians of {asked.repeats})")
    for size in SIZES:
        middle = {}
        for kind in ("gloo", "tls"):
            pairs = [(a, b) for a, b in zip(*sides, strict=True) if (a["size"], a["kind"]) == (size, kind)]
            speed = statistics.median(a["bytes"] / a["wall_s"] / 1e6 for a, _ in pairs)
            cpu = statistics.median((a["cpu_s"] + b["cpu_s"]) / a["bytes"] * 1e9 for a, b in pairs)
            middle[kind] = speed, cpu
            print(f"{size:>10}{kind:>6}{speed:>10.0f}{cpu:>22.2f}")
        print(f"{size:>10}  tls / gloo: speed {middle['tls'][0] / middle['gloo'][0]:.2f}", end="")
        print(f", CPU {middle['tls'][1] / middle['gloo'][1]:.2f}")


if __name__ == "__main__":
    main()
