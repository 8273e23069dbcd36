"""The ServerApp: the command line itself, run where Flower's grid is.

Whoever submitted the run waits at a socket with the program: a module and its arguments, in general those of
`python -m relaytrain run ...`. It runs here as it would there, only that its words and its exit status go back through
the socket, and that `transport = "flower"` finds a grid. A run that failed is a failed one for Flower too.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from .channel import ProgramEnd
from .inside import having
from .serverapp_name import CHANNEL

OUTCOMES = (0, 4, 5, 6)
"""Exit statuses of runs that came to a verdict, as `docs/formats.md` has them."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the program that waits at the channel."""
    end = ProgramEnd(str(context.run_config[CHANNEL]))
    program = end.receive()
    status = 1
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        out, err = end.text("out"), end.text("err")
        with having(grid), out, err, redirect_stdout(out), redirect_stderr(err):
            status = _run(program)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        end.end(status)
    if status not in OUTCOMES:
        raise RuntimeError(f"{program['module']} ended with status {status}")


def _run(program: dict[str, Any]) -> int:
    os.environ.update(program["environment"])
    if program["folder"]:
        os.chdir(program["folder"])
        sys.path.insert(0, program["folder"])
    sys.argv = [program["module"], *program["arguments"]]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Flower raises it here when it is lost itself: nobody asked to stop
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        runpy.run_module(program["module"], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
        if code is None or isinstance(code, int):
            return code or 0
        print(code, file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0
