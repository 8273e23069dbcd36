"""Where nobody but this machine listens, and the files by which both ends of a link know each other beyond it."""

from __future__ import annotations

import ipaddress

CA, TLS, TLS_KEY = "ca.crt", "tls.crt", "tls.key"
"""Of a folder of `relaytrain flower certs`: the authority, a node's certificate and its key."""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nothing else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
