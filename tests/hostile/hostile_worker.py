"""Reads hostile files, each in a forked process of its own that may take 1 GB at most and, in the soak, 10 s.

`python hostile_worker.py SCRATCH SEED ...` prints a JSON line for each: what it was, how it ended, what was said.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from hostile_files import Case, case

from relaytrain.cli.app import main
from relaytrain.core.errors import RelayTrainError

LIMIT_S = 10 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 600
"""Elsewhere against a hang only: a machine may be busy."""
LIMIT_BYTES = 1 << 30


def read(call: tuple[str, ...]) -> int:
    """The exit status of a command, or of a reader that commands use but that would train afterwards."""
    try:
        if call[0] == "read-traces":
            from relaytrain.traces.trace_files import read_campaigns

            read_campaigns(Path(call[1]))
            return 0
        if call[0] == "read-start":
            from relaytrain.training.start_file import start_file

            start_file(Path(call[1]), None)
            return 0
    except RelayTrainError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return main(list(call))


def attempt(made: Case, words: Path) -> dict[str, object]:
    pid = os.fork()
    if pid == 0:
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)  # what hangs is killed
        held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (held + LIMIT_BYTES,) * 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        code = 99
        try:
            code = read(made.call)
        except BaseException as error:
            print(f"raised {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status, used = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    said = words.read_text(errors="replace")
    return {
        "seed": made.seed, "kind": made.kind, "what": made.what, "call": " ".join(made.call)[:200], "code": code,
        "allowed": made.allowed, "said": said[-600:], "mb": used.ru_maxrss // 1024,
    }  # fmt: skip


def run(scratch: Path, seeds: list[int], sentinel: Path) -> None:
    os.chdir(scratch)
    main(["plan", "fig5", "-q"])  # compiled and imported once, for all that are forked from here
    main(["plan", "fig5", "--rule", "literal", "-q"])
    main(["plan", "quickstart", "--estimator", "zero-trace", "-q"])
    sys.stdout.flush()
    if os.environ.get("HOSTILE_TORCH"):
        import relaytrain.training.setup  # noqa: F401
    print("ready", flush=True)
    for seed in seeds:
        folder = scratch / f"{seed}"
        folder.mkdir()
        made = case(seed, folder, sentinel)
        print(json.dumps(attempt(made, scratch / "words")), flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), [int(word) for word in sys.argv[3:]], Path(sys.argv[2]))
