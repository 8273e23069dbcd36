"""`python dying_clientapp.py ADDRESS SECRET WAY ...`: forks ClientApps that end as the ways say, one after the other.

A way is `SIGNAL:METHOD`: the app sends itself the signal where it would call that method of Flower's interface. `9:` is
at its very start, `-` an app that lives. `used` before it: the app has ended its task by then.
Prints how each SuperNode that it served has ended; `/` among the ways begins the next one.
"""

from __future__ import annotations

import mmap
import os
import sys
from itertools import groupby

from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import PushTaskOutputRequest
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.cli.flwr_clientapp import flwr_clientapp

from relaytrain.executors.flower import apps


def dying(ways: list[str]):
    """Flower's program, which ends itself on the way."""
    starts = mmap.mmap(-1, 1)

    def app() -> None:
        way = ways[starts[0]] if starts[0] < len(ways) else "-"
        starts[0] += 1
        if way != "-":
            number, _, method = way.removeprefix("used").partition(":")
            if not method:
                os.kill(os.getpid(), int(number))
            called = getattr(RuntimeHttpClient, method)

            def last(self, request):
                if way.startswith("used"):
                    RuntimeHttpClient.PushTaskOutput(self, PushTaskOutputRequest(sub_status=SubStatus.FAILED))
                os.kill(os.getpid(), int(number))
                return called(self, request)

            setattr(RuntimeHttpClient, method, last)
        flwr_clientapp()

    return app


def main(address: str, secret: str, *ways: str) -> None:
    apps.LOOK_S = apps.MOST_LOOK_S = 0.05
    place = apps.TaskPlace(address, None, secret.encode())
    for following, mine in groupby(ways, "/".__eq__):
        if not following:
            served = os.fork()
            if served == 0:
                os.read(0, 1)  # its end, which is the test's
                os._exit(0)
            print(apps._serve("flwr-clientapp", dying(list(mine)), place, served), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
