"""Where stages may listen: gloo neither authenticates nor encrypts, so on loopback alone."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct

from ..core.errors import UsageError
from ..core.loopback import is_loopback

_ADDRESS_OF = 0x8915  # SIOCGIFADDR
OTHERWISE = (
    "others can reach it, and gloo neither authenticates nor encrypts; between hosts: `pipeline run --prepare`, then "
    "`python -m relaytrain.pipeline.worker` with --certs and --at"
)


def interface_of(bind: str) -> str:
    """The interface that `bind` means: loopback, by its name, `localhost` or an address.

    Raises:
        UsageError: it is another one, or none.
    """
    names = [name for _, name in socket.if_nameindex()]
    if bind in names:
        address = address_of(bind) or ""
    else:
        address = "127.0.0.1" if bind == "localhost" else bind
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise UsageError(f"bind: got {bind[:60]!r}, expected localhost or an address of this host") from None
    if not loopback:
        raise UsageError(f"bind: got {bind}: {OTHERWISE}")
    if bind in names:
        return bind
    interfaces = [name for name in names if (address_of(name) or "").startswith("127.")]
    if not interfaces:
        raise UsageError(f"bind: got {bind}, which is no address of this host; its interfaces are {', '.join(names)}")
    return interfaces[0]


def address_of(interface: str) -> str | None:
    """The IPv4 address of an interface, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            packed = fcntl.ioctl(probe.fileno(), _ADDRESS_OF, struct.pack("256s", interface[:15].encode()))
        except OSError:
            return None
    return socket.inet_ntoa(packed[20:24])


def check_master(address: str) -> None:
    """Refuse a rendezvous at an address beyond loopback.

    Raises:
        UsageError: it would be reachable for others.
    """
    try:
        loopback = is_loopback(socket.gethostbyname(address))
    except OSError:
        loopback = False
    if not loopback:
        raise UsageError(f"MASTER_ADDR: got {address[:60]}: {OTHERWISE}")
