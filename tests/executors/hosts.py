"""Hosts of one's own: network namespaces with shaped links to a hub. Needs root and `ip`; nothing leaves us."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

NEEDS = "needs root, `ip` and `tc`: namespaces with links of their own"
HUB = "10.77.0.1"


def can_make_hosts() -> bool:
    return os.geteuid() == 0 and all(shutil.which(tool) for tool in ("ip", "tc")) and _works()


def _works() -> bool:
    name = f"rt{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], check=False)
    return made


needs_hosts = pytest.mark.skipif(not can_make_hosts(), reason=NEEDS)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def can_lose() -> bool:
    """Whether the kernel can lose packets on request."""
    if not can_make_hosts():
        return False
    name = f"rt{os.getpid()}lose"
    try:
        ip("netns", "add", name)
        shape = ["tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "loss", "1%"]
        return subprocess.run(shape, capture_output=True, check=False).returncode == 0
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


needs_loss = pytest.mark.skipif(not can_lose(), reason=f"{NEEDS}, and a kernel with netem, which loses packets")


def inside(host: str) -> list[str]:
    """What stands before a command that runs on a host."""
    return ["ip", "netns", "exec", host]


class Hosts:
    """A hub and hosts, each behind its own link; `rates` are in Mbit/s by name."""

    def __init__(self, rates: Mapping[str, float]) -> None:
        self._mark = f"rt{os.getpid()}"
        self.hub = f"{self._mark}hub"
        self.rates = dict(rates)
        self.addresses = {name: f"10.77.0.{10 + i}" for i, name in enumerate(rates)}

    def of(self, name: str) -> str:
        """The namespace of a host."""
        return f"{self._mark}{name}"

    def link(self, name: str) -> str:
        """The host's end of its link."""
        return f"v{list(self.rates).index(name)}"

    def make(self) -> None:
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "set", "lo", "up")
        ip("-n", self.hub, "link", "add", "br0", "type", "bridge")
        ip("-n", self.hub, "addr", "add", f"{HUB}/24", "dev", "br0")
        ip("-n", self.hub, "link", "set", "br0", "up")
        for name, rate in self.rates.items():
            host, ours, theirs = self.of(name), f"h{self.link(name)}", self.link(name)
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", self.hub, "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", host)
            ip("-n", self.hub, "link", "set", ours, "master", "br0", "up")
            ip("-n", host, "addr", "add", f"{self.addresses[name]}/24", "dev", theirs)
            ip("-n", host, "link", "set", theirs, "up")
            for where, device in ((self.hub, ours), (host, theirs)):
                shape = ["tbf", "rate", f"{rate}mbit", "burst", "32kbit", "latency", "400ms"]
                subprocess.run(["tc", "-n", where, "qdisc", "add", "dev", device, "root", *shape], check=True)

    def lose(self, name: str, percent: float) -> None:
        """Have a host's link lose packets, in the place of its rate."""
        for where, device in ((self.hub, f"h{self.link(name)}"), (self.of(name), self.link(name))):
            shape = ["netem", "loss", f"{percent}%", "rate", f"{self.rates[name]}mbit"]
            subprocess.run(["tc", "-n", where, "qdisc", "replace", "dev", device, "root", *shape], check=True)

    def cut(self, name: str, *, again: bool = False) -> None:
        """Take a host's link down, or up again."""
        ip("-n", self.hub, "link", "set", f"h{self.link(name)}", "up" if again else "down")

    def remove(self) -> None:
        for name in (*map(self.of, self.rates), self.hub):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@contextmanager
def hosts(rates: Mapping[str, float]) -> Iterator[Hosts]:
    made = Hosts(rates)
    try:
        made.make()
        yield made
    finally:
        made.remove()


@contextmanager
def watched_host() -> Iterator[tuple[str, Path]]:
    """A host with a default route to nowhere and no IPv6, and where its sent packets are counted."""
    name, peer = f"rt{os.getpid()}alone", f"rt{os.getpid()}peer"
    try:
        for one in (name, peer):
            ip("netns", "add", one)
        ip("-n", name, "link", "set", "lo", "up")
        for key in ("all", "default"):
            subprocess.run([*inside(name), "sysctl", "-qw", f"net.ipv6.conf.{key}.disable_ipv6=1"], check=True)
        ip("-n", name, "link", "add", "out0", "type", "veth", "peer", "name", "in0", "netns", peer)
        ip("-n", name, "addr", "add", "10.78.0.2/24", "dev", "out0")
        ip("-n", name, "link", "set", "out0", "up")
        ip("-n", peer, "link", "set", "in0", "up")
        ip("-n", name, "route", "add", "default", "via", "10.78.0.1")
        yield name, Path("/sys/class/net/out0/statistics/tx_packets")
    finally:
        for one in (name, peer):
            subprocess.run(["ip", "netns", "del", one], capture_output=True, check=False)


def packets(host: str, counter: Path) -> int:
    read = [*inside(host), "cat", str(counter)]
    return int(subprocess.run(read, check=True, capture_output=True, text=True).stdout)


def sent_again(host: str) -> int:
    """How often the host's TCP has sent something once more, since nobody had said that it came."""
    read = [*inside(host), "cat", "/proc/net/snmp"]
    said = subprocess.run(read, check=True, capture_output=True, text=True).stdout
    names, figures = (line.split() for line in said.splitlines() if line.startswith("Tcp:"))
    return int(figures[names.index("RetransSegs")])


def send_one(host: str) -> None:
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('198.51.100.1', 9))"
    subprocess.run([*inside(host), sys.executable, "-c", code], check=True)
