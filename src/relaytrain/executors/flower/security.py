"""Certificates and node keys for development, and the rule that nothing but loopback goes without them.

    DIR/ca.crt ca.key  server.crt server.key         stay where the SuperLink runs
    DIR/nodes/NAME/ca.crt key key.pub tls.crt tls.key   is copied to the machine of node NAME

A node's key is registered at the SuperLink under the node's name, so a node answers for itself only. Its certificate
has the same name: it is for links between the stages of a pipeline, which do not go through the SuperLink.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import socket
import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import UsageError
from ...core.loopback import CA, TLS, TLS_KEY, is_loopback
from ...store.files import make_dir, write_atomic
from .environment import environment, forking, free_ports, program

DAYS = 365
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[?[0-9A-Fa-f:.]+\]?")
_LISTEN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
SERVER, SERVER_KEY, NODES, KEY, PUBLIC = "server.crt", "server.key", "nodes", "key", "key.pub"


@dataclass(frozen=True)
class Link:
    """A SuperLink's address, and the folder with the certificate that it is known by; None on loopback alone."""

    address: str
    certs: Path | None = None

    @property
    def host_port(self) -> tuple[str, int]:
        """The address in two parts."""
        host, _, port = self.address.rpartition(":")
        return host.strip("[]"), int(port)

    def write_config(self, home: Path) -> None:
        """Make it what `here` means to the commands of Flower whose home is the private folder `home`."""
        how = "insecure = true" if self.certs is None else f'root-certificates = "{(self.certs / CA).resolve()}"'
        config = f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{self.address}"\n{how}\n'
        write_atomic(make_dir(home, private=True) / "config.toml", config, private=True, durable=False)

    def node_arguments(self) -> list[str]:
        """Of a SuperNode that joins."""
        if self.certs is None:
            return ["--insecure"]
        arguments = ["--root-certificates", str((self.certs / CA).resolve())]
        key = self.certs / KEY
        return [*arguments, "--auth-supernode-private-key", str(key.resolve())] if key.is_file() else arguments


def link_to(address: str, certs: Path | None, *, node: bool = False) -> Link:
    """The link to a SuperLink, as options say.

    Raises:
        UsageError: no address, files are missing, or it is not loopback and there are no certificates.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 1 <= int(port) <= 65535 or not _HOST.fullmatch(host):
        raise UsageError(f"--superlink: got '{address[:80]}', expected HOST:PORT, for example 127.0.0.1:8000")
    if certs is None and not is_loopback(host):
        raise UsageError(
            f"--superlink: {host} is not this machine; what goes there would be neither encrypted nor authenticated: "
            f"make certificates with `relaytrain flower certs DIR --host {host} --node NAME ...`, then add --certs DIR"
        )
    if certs is not None:
        for name in (CA, KEY) if node else (CA,):
            if not (certs / name).is_file():
                raise UsageError(
                    f"--certs: {certs} has no {name}; `relaytrain flower certs` makes "
                    + ("a folder for each node: nodes/NAME" if node else "it")
                )
    return Link(address, certs)


def stage_address(link: Link, listen: str | None) -> str:
    """HOST:PORT at which a node's stages of pipeline sets listen: as told, else at its address towards the SuperLink.

    Raises:
        UsageError: no such address, or it is beyond loopback and there are no certificates.
    """
    host, port = "", ""
    if listen is not None:
        match = _LISTEN.fullmatch(listen)
        host, port = (match[1], match[2] or "") if match else ("", "")
        if not host or not _HOST.fullmatch(host) or int(port or 1) not in range(1, 65536):
            raise UsageError(f"--listen: got '{listen[:80]}', expected HOST or HOST:PORT, for example 10.0.0.2:9000")
    if host.strip("[]") in ("0.0.0.0", "::"):
        raise UsageError(f"--listen: {host} is no address that the other stages could connect to; name one")
    host = host or _towards(link)
    if link.certs is None and not is_loopback(host):
        raise UsageError(
            f"--listen: others can reach {host}, and nothing there would be encrypted: make certificates with "
            "`relaytrain flower certs DIR --node NAME ...`, then add --certs DIR"
        )
    return f"{host}:{port or free_ports(1)[0]}"


def _towards(link: Link) -> str:
    """This machine's address as the SuperLink's machine sees it; nothing is sent to find out."""
    host, port = link.host_port
    if is_loopback(host):
        return "127.0.0.1"
    try:
        kind, _, _, _, there = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(there)
            address = str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"
    return f"[{address}]" if ":" in address else address


def make_certificates(folder: Path, hosts: Sequence[str], nodes: Sequence[str]) -> list[Path]:
    """Development certificates and node keys; the authority is made once, nodes and hosts can be added later."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    for host in hosts:
        if not _HOST.fullmatch(host):
            raise UsageError(f"--host: got '{host[:80]}', expected a name or an address")
    for name in nodes:
        if not _NAME.fullmatch(name):
            raise UsageError(f"--node: got '{name[:80]}', expected the name of a node")
    make_dir(folder, private=True)
    written: list[Path] = []
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)

    def builder(common: str, issuer: x509.Name | None, key: Any) -> x509.CertificateBuilder:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
        draft = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer or subject)
        draft = draft.public_key(key.public_key()).serial_number(x509.random_serial_number())
        return draft.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=DAYS))

    if (folder / "ca.key").is_file():
        ca_key: Any = _private(folder / "ca.key")
        ca = x509.load_pem_x509_certificate((folder / CA).read_bytes())
    else:
        ca_key = ec.generate_private_key(ec.SECP384R1())
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        root = builder("relaytrain development authority", None, ca_key)
        root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        root = root.add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        ca = root.add_extension(usage, critical=True).sign(ca_key, hashes.SHA256())
        written += _write(folder / "ca.key", _pem(ca_key)) + _write(folder / CA, _pem(ca))
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())

    def issue(common: str, names: Sequence[str], usage: Sequence[x509.ObjectIdentifier]) -> tuple[bytes, bytes]:
        """A new key and its certificate."""
        key = ec.generate_private_key(ec.SECP384R1())
        draft = builder(common, ca.subject, key)
        if names:
            draft = draft.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        draft = draft.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        draft = draft.add_extension(authority, critical=False)
        draft = draft.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        return _pem(key), _pem(draft.sign(ca_key, hashes.SHA256()))

    known = list(dict.fromkeys([*hosts, "localhost", "127.0.0.1", "::1"]))
    key, server = issue("relaytrain SuperLink", known, [ExtendedKeyUsageOID.SERVER_AUTH])
    written += _write(folder / SERVER_KEY, key) + _write(folder / SERVER, server)
    for name in nodes:
        place = make_dir(folder / NODES / name, private=True)
        if not (place / KEY).is_file():
            written += _write(place / KEY, _ssh(own := ec.generate_private_key(ec.SECP384R1())))
            written += _write(place / PUBLIC, _ssh_public(own))
        if not (place / TLS_KEY).is_file():
            ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            key, mine = issue(name, [], ends)
            written += _write(place / TLS_KEY, key) + _write(place / TLS, mine)
        written += _write(place / CA, _pem(ca))
    return written


def superlink_command(address: str, folder: Path | None, database: Path | None = None) -> list[str]:
    """The command that starts a SuperLink there: with TLS and node keys, or on loopback without."""
    link = link_to(address, None) if folder is None else Link(address, folder)
    host, port = link.host_port
    command = [program("flower-superlink"), "--host", host, "--port", str(port)]
    command += ["--disable-runtime-dependency-installation"]
    command += [] if database is None else ["--database", str(database)]
    here = f"127.0.0.1:{port}" if host == "0.0.0.0" else address
    if folder is None:
        return [*forking("flwr-serverapp", here), *command, "--insecure"]
    for name in (CA, SERVER, SERVER_KEY):
        if not (folder / name).is_file():
            raise UsageError(f"{folder}: no {name}; make it with `relaytrain flower certs {folder} --host {host}`")
    command += ["--ssl-ca-certfile", str((folder / CA).resolve()), "--ssl-certfile", str((folder / SERVER).resolve())]
    command += ["--ssl-keyfile", str((folder / SERVER_KEY).resolve()), "--enable-supernode-auth"]
    return [*forking("flwr-serverapp", here, (folder / CA).resolve()), *command]


def register_nodes(link: Link, folder: Path, home: Path) -> list[str]:
    """Register the keys of all nodes of `folder` at a SuperLink that runs, under their names; those that were new."""
    link.write_config(home)
    new = []
    for place in sorted((folder / NODES).glob("*")):
        command = [program("flwr"), "supernode", "register", str(place / PUBLIC), "here", "--name", place.name]
        done = subprocess.run(
            command, env=environment(home), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        words = " ".join((done.stdout + done.stderr).split())
        if done.returncode == 0:
            new.append(place.name)
        elif "already" not in words:
            raise UsageError(f"the SuperLink at {link.address} does not register {place.name}: {words[-300:]}")
    return new


def client_context(link: Link) -> ssl.SSLContext | None:
    """For a look at the SuperLink; None where it speaks in the clear."""
    return None if link.certs is None else ssl.create_default_context(cafile=str(link.certs / CA))


def _general(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _private(path: Path) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key(path.read_bytes(), None)


def _pem(thing: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if hasattr(thing, "private_bytes"):
        return bytes(thing.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return bytes(thing.public_bytes(Encoding.PEM))


def _ssh(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


def _ssh_public(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)) + b"\n"


def _write(path: Path, data: bytes) -> list[Path]:
    write_atomic(path, data, private=True)
    return [path]
