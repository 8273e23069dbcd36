"""Where the dashboard listens: beyond loopback only with a certificate that works, and what is refused is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from relaytrain.core.errors import UsageError
from relaytrain.web.serving import ListenAt


@pytest.fixture(scope="module")
def pem(tmp_path_factory) -> Path:
    """Certificates of two servers."""
    from relaytrain.executors.flower.security import make_certificates

    for name in ("one", "other"):
        make_certificates(tmp_path_factory.getbasetemp() / name, ("10.0.0.1",), ())
    folder = tmp_path_factory.getbasetemp()
    (folder / "junk.pem").write_text("no certificate")
    return folder


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.3.2.1"])
def test_loopback_needs_no_certificate(host):
    ListenAt(host).check()
    assert ListenAt(host).local


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "machine.example"])
def test_others_are_not_let_listen_in(host, pem):
    with pytest.raises(UsageError, match="expected --cert and --key"):
        ListenAt(host).check()
    ListenAt(host, certificate=pem / "one" / "server.crt", key=pem / "one" / "server.key").check()


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        ("one/server.crt", None, "got one of them, expected both or none"),
        ("one/nothing.crt", "one/server.key", "nothing.crt', expected a file"),
        ("junk.pem", "junk.pem", "cannot be used"),
        ("one/server.crt", "other/server.key", "cannot be used .*MISMATCH"),
    ],
)
def test_certificates_that_do_not_work_are_said(pem, certificate, key, said):
    place = ListenAt(certificate=pem / certificate, key=None if key is None else pem / key)
    with pytest.raises(UsageError, match=said):
        place.check()
