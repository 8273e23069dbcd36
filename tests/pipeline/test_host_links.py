"""Links between hosts: what arrives is what was sent, and nobody is taken for somebody else."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress

import pytest

pytest.importorskip("torch")
pytest.importorskip("cryptography")
import torch

from relaytrain.core.errors import UsageError, WorkerLost
from relaytrain.executors.flower.environment import free_ports
from relaytrain.executors.flower.security import make_certificates
from relaytrain.pipeline.host_links import HostLinks, JobKey, StagePlace

pytestmark = pytest.mark.train
LATE_S = 30.0
JOB = JobKey("job", b"secret")


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certs")
    make_certificates(folder, (), ("one", "two", "three"))
    return folder / "nodes"


@pytest.fixture
def places():
    return [StagePlace(name, "127.0.0.1", port) for name, port in zip(("one", "two"), free_ports(2), strict=True)]


@pytest.fixture
def ends(certs, places):
    both = [HostLinks(rank, places, certs / place.name, JOB, LATE_S) for rank, place in enumerate(places)]
    yield both
    for end in both:
        end.close()


def test_tensors_arrive_in_order_and_to_the_bit(ends):
    draw = torch.Generator().manual_seed(1)
    sent = [
        torch.randn(3, 5, generator=draw),
        torch.randn(400, 300, generator=draw).to(torch.bfloat16),
        torch.arange(7),
        torch.tensor(2.5),
        torch.empty(0, 4),
        torch.randn(6, 4, generator=draw).T,
    ]
    receiver = ends[1].receiver(0, 3, iter([(tuple(t.shape), t.dtype) for t in sent]))
    sender = ends[0].sender(1, 3)
    for tensor in sent:
        sender.send(tensor)
    got = [receiver.recv() for _ in sent]
    sender.close()
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(sent, got, strict=True))
    assert sender.sent_bytes == sum(t.nbytes for t in sent)
    with pytest.raises(RuntimeError, match="nothing more"):
        receiver.recv()


def test_an_end_that_dies_is_lost(ends):
    receiver = ends[1].receiver(0, 1, iter([((4,), torch.float32)] * 2))
    sender = ends[0].sender(1, 1)
    sender.send(torch.ones(4))
    assert receiver.recv().sum() == 4
    sender._link.close()
    with pytest.raises(WorkerLost, match="link to process 0"):
        receiver.recv()


def refused_by(end: HostLinks, attempt) -> str:
    """What an end says of whom it did not let in; the attempt may only see that later."""
    with pytest.raises((WorkerLost, OSError)):
        link = attempt()
        link.send(torch.ones(4))
        link.close()
    assert end.refused and not end._came, end.refused
    return end.refused[0]


def test_a_certificate_of_another_node(certs, places, ends):
    places = [StagePlace("one", "127.0.0.1", free_ports(1)[0]), places[1]]
    impostor = HostLinks(0, places, certs / "three", JOB, LATE_S)
    assert "certificate of three, expected one" in refused_by(ends[1], lambda: impostor.sender(1, 1))
    impostor.close()


def test_a_certificate_of_another_authority(tmp_path, places, ends):
    make_certificates(tmp_path, (), ("one",))
    places = [StagePlace("one", "127.0.0.1", free_ports(1)[0]), places[1]]
    stranger = HostLinks(0, places, tmp_path / "nodes" / "one", JOB, LATE_S)
    with pytest.raises(WorkerLost, match="CERTIFICATE_VERIFY_FAILED"):
        stranger.sender(1, 1)
    stranger.close()
    assert not ends[1]._came


def test_nobody_listens_for_another_stage(certs, places, ends):
    """The end that connects asks for a name too."""
    taken = [StagePlace("one", "127.0.0.1", free_ports(1)[0]), StagePlace("three", "127.0.0.1", places[1].port)]
    asker = HostLinks(0, taken, certs / "one", JOB, LATE_S)
    with pytest.raises(WorkerLost, match="certificate of two, expected three"):
        asker.sender(1, 1)
    asker.close()


def test_another_job_and_plain_text(certs, places, ends):
    places = [StagePlace("one", "127.0.0.1", free_ports(1)[0]), places[1]]
    other = HostLinks(0, places, certs / "one", JobKey("another job", JOB.key), LATE_S)
    assert "another job" in refused_by(ends[1], lambda: other.sender(1, 1))
    other.close()
    with socket.create_connection(("127.0.0.1", places[1].port), timeout=LATE_S) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            while plain.recv(1000):
                pass
    until = time.monotonic() + LATE_S  # TLS ends such a connection before our end hears of it
    while len(ends[1].refused) < 2 and time.monotonic() < until:
        threading.Event().wait(0.01)
    assert len(ends[1].refused) == 2 and not ends[1]._came


HELLO = {"rank": 0, "tag": 1, "job": "job", "challenge": "", "proof": ""}


@pytest.mark.parametrize(
    "hello",
    [
        b'{"rank": Infinity, "tag": 1}',
        b"[" * 1000,
        b"[]",
        b"5",
        b"\xff",
        json.dumps({**HELLO, "rank": "0"}).encode(),
        json.dumps({**HELLO, "tag": 1.5}).encode(),
        json.dumps({**HELLO, "proof": "no"}).encode(),
        json.dumps({**HELLO, "proof": 5}).encode(),
    ],
)
def test_a_hello_that_is_none_is_refused_in_words(places, hello):
    listener = HostLinks(1, places, None, JOB, LATE_S)
    with socket.create_connection(("127.0.0.1", places[1].port), timeout=LATE_S) as link:
        link.sendall(len(hello).to_bytes(8, "little") + hello)
        with suppress(ConnectionResetError):
            while link.recv(1000):
                pass
    listener.close()
    assert [words.partition(" (")[0] for words in listener.refused] == ["127.0.0.1: its hello is none"]


def test_faults_are_words(certs, tmp_path):
    for text in ("", "one", "one=host", "one=host:0", "=host:9", "one=:9"):
        with pytest.raises(UsageError, match="NAME=HOST:PORT"):
            StagePlace.parse(text)
    assert StagePlace.parse("one=[::1]:9000") == StagePlace("one", "::1", 9000)
    with pytest.raises(UsageError, match="flower certs"):
        HostLinks(0, [StagePlace("one", "127.0.0.1", 1)], tmp_path, JOB, 1.0)
    with pytest.raises(UsageError, match="--rank"):
        HostLinks(3, [StagePlace("one", "127.0.0.1", 1)], certs / "one", JOB, 1.0)


@pytest.mark.parametrize("secure", [False, True])
def test_a_stage_without_the_jobs_key(certs, places, secure):
    """On loopback in the clear it is the key alone that says who is a stage; neither end takes another one."""

    def end(rank, at, key):
        return HostLinks(rank, at, certs / at[rank].name if secure else None, JobKey("job", key), LATE_S)

    listener = end(1, places, b"right")
    elsewhere = [StagePlace("one", "127.0.0.1", free_ports(1)[0]), places[1]]
    wrong = end(0, elsewhere, b"wrong")
    with pytest.raises(WorkerLost, match="refuses our key"):
        wrong.sender(1, 1)
    assert "it says that it is one and has not the key" in listener.refused[0] and not listener._came
    right = end(0, places, b"right")
    receiver = listener.receiver(0, 1, iter([((4,), torch.float32)]))
    link = right.sender(1, 1)
    link.send(torch.ones(4))
    assert receiver.recv().sum() == 4
    link.close()
    for one in (listener, wrong, right):
        one.close()


def test_one_that_listens_without_the_key_gets_no_tensor(places):
    """Whoever takes a stage's port first cannot prove anything by it."""
    job = JobKey("job", b"right")
    asker = HostLinks(0, places, None, job, LATE_S)
    with socket.create_server(("127.0.0.1", places[1].port)) as impostor:
        heard = []

        def pretend():
            link, _ = impostor.accept()
            with link:
                link.sendall(bytes(32))
                heard.append(link.recv(1000))
                link.sendall(b"y" + bytes(32))
                heard.append(link.recv(1000))

        thread = threading.Thread(target=pretend, daemon=True)
        thread.start()
        with pytest.raises(WorkerLost, match="has not the key of this job"):
            asker.sender(1, 1)
        thread.join(LATE_S)
    assert b"right" not in heard[0] and heard[1] == b""
    asker.close()


def test_one_that_is_still_about_the_job_before_is_waited_for(places):
    """Stages of a second attempt start one after the other."""
    before = HostLinks(1, places, None, JobKey("job 0", b"0"), LATE_S)
    now = JobKey("job 1", b"1")
    asker = HostLinks(0, places, None, now, LATE_S, moving=True)
    made = []
    thread = threading.Thread(target=lambda: made.append(asker.sender(1, 1)), daemon=True)
    thread.start()
    while not before.refused:
        pass
    before.close()
    after = HostLinks(1, places, None, now, LATE_S)
    receiver = after.receiver(0, 1, iter([((4,), torch.float32)]))
    thread.join(LATE_S)
    made[0].send(torch.ones(4))
    assert receiver.recv().sum() == 4
    for one in (asker, after):
        one.close()


def test_beyond_loopback_nothing_goes_in_the_clear():
    with pytest.raises(UsageError, match="flower certs"):
        HostLinks(0, [StagePlace("one", "127.0.0.1", 1), StagePlace("two", "10.1.2.3", 1)], None, JOB, 1.0)


def test_who_waits_at_a_link_that_is_ended_is_told(ends):
    receiver = ends[1].receiver(0, 1, iter([((4,), torch.float32)]))
    ends[0].sender(1, 1)
    ends[1].close()
    with pytest.raises(WorkerLost, match="link to process 0"):
        receiver.recv()
