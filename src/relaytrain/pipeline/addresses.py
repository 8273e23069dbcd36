"""Where stages may listen: gloo neither authenticates nor encrypts, so loopback or an interface named on purpose."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct

from ..core.errors import UsageError

_ADDRESS_OF = 0x8915  # SIOCGIFADDR
EVERYWHERE = "0.0.0.0"


def interface_of(bind: str, *, trusted: bool = False) -> str | None:
    """The interface that `bind` means: an interface's name, `localhost` or an address. None: all of them.

    Raises:
        UsageError: an address beyond loopback without `trusted`, or one that this host does not have.
    """
    names = [name for _, name in socket.if_nameindex()]
    if bind in names:
        return bind
    try:
        address = ipaddress.ip_address("127.0.0.1" if bind == "localhost" else bind)
    except ValueError:
        raise UsageError(
            f"bind: got {bind[:60]!r}, expected localhost, an address or one of {', '.join(names)}"
        ) from None
    if not address.is_loopback and not trusted:
        raise UsageError(
            f"bind: got {bind}, which others can reach, and gloo neither authenticates nor encrypts; "
            "name an interface of a network you trust, or say --trusted-network"
        )
    if bind == EVERYWHERE:
        return None
    interface = next((name for name in names if address_of(name) == str(address)), None)
    if interface is None and address.is_loopback:
        interface = next((name for name in names if (address_of(name) or "").startswith("127.")), None)
    if interface is None:
        raise UsageError(f"bind: got {bind}, which is no address of this host; its interfaces are {', '.join(names)}")
    return interface


def address_of(interface: str) -> str | None:
    """The IPv4 address of an interface, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            packed = fcntl.ioctl(probe.fileno(), _ADDRESS_OF, struct.pack("256s", interface[:15].encode()))
        except OSError:
            return None
    return socket.inet_ntoa(packed[20:24])


def check_master(address: str, *, interface: str | None, trusted: bool) -> None:
    """Refuse a rendezvous at an address beyond loopback unless an interface was named or the network is trusted.

    Raises:
        UsageError: it would be reachable for anyone.
    """
    try:
        loopback = ipaddress.ip_address(socket.gethostbyname(address)).is_loopback
    except OSError:
        loopback = False
    if not loopback and not interface and not trusted:
        raise UsageError(
            f"MASTER_ADDR: got {address[:60]}, beyond this host, where gloo neither authenticates nor encrypts; "
            "name the interface of a network you trust with --interface, or say --trusted-network"
        )
