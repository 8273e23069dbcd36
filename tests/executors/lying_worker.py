"""A worker process that speaks the frames, trains nothing, and lies: `python -S lying_worker.py LIE NODE WHEN MARK`.

Honest answers return the weights they were sent. It lies about NODE alone, in the first attempt (WHEN = "once"; while
it starts, the first time, of which the file MARK is the memory) or in all ("always"). The standard library only, so
that it starts in no time.
"""

import array
import json
import math
import os
import signal
import struct
import sys

OUT = os.fdopen(os.dup(1), "wb")
LIE, NODE, WHEN, MARK = sys.argv[1:]


def pack(header, body=b""):
    text = json.dumps(header).encode()
    return struct.pack("<I", len(text)) + text + body


def raw(data):
    OUT.write(data)
    OUT.flush()


def frame(data):
    raw(struct.pack("<Q", len(data)) + data)


def say(kind, body=b"", **header):
    frame(pack({"kind": kind, **header}, body))


def read(count):
    data = sys.stdin.buffer.read(count)
    if len(data) < count:
        os._exit(0)
    return data


def receive():
    (size,) = struct.unpack("<Q", read(8))
    data = read(size)
    (length,) = struct.unpack("<I", data[:4])
    return json.loads(data[4 : 4 + length]), data[4 + length :]


def wait():
    while True:
        receive()


class Answer:
    """The honest answer to a task, open to change."""

    def __init__(self, body):
        (length,) = struct.unpack("<I", body[:4])
        self.task, self.update = json.loads(body[4 : 4 + length]), body[4 + length :]
        self.header = {key: self.task[key] for key in ("run", "node", "epoch", "attempt")}
        self.header |= {"samples": SAMPLES[self.task["node"]], "train_loss": 1.0, "cpu_s": 0.001, "wall_s": 0.001}
        self.header |= {"error": None, "kind": None, "whole": True, "energy_j": None, "provenance": None}

    def send(self, update=None, **changes):
        header = {**self.header, **changes}
        header = {key: value for key, value in header.items() if value is not ...}
        say("result", pack(header, self.update if update is None else update))

    def tensors(self, change):
        """The checkpoint with `change(name, numbers)` for every tensor of float32."""
        (length,) = struct.unpack("<Q", self.update[:8])
        header, data = json.loads(self.update[8 : 8 + length]), self.update[8 + length :]
        parts = {}
        for name, entry in header.items():
            if name != "__metadata__":
                first, last = entry["data_offsets"]
                numbers = array.array("f")
                numbers.frombytes(data[first:last])
                parts[name] = (entry, change(name, numbers))
        return safetensors(header["__metadata__"], parts)


def safetensors(metadata, parts):
    header, data = {"__metadata__": metadata}, b""
    for name, (entry, numbers) in parts.items():
        text = numbers.tobytes()
        header[name] = {**entry, "data_offsets": [len(data), len(data) + len(text)]}
        data += text
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def times(factor):
    return lambda name, numbers: array.array("f", [number * factor for number in numbers])


def one_is(value):
    def change(name, numbers):
        numbers[0] = value
        return numbers

    return change


KINDS = {"F32": "f", "I64": "q", "F8_E4M3": "B", "C64": "f"}
"""What numbers of a kind of tensor are written as."""


def with_state(answer, buffer, value, kind="F32", shape=None):
    """An optimizer state of `value` for every weight, of its shape unless one is given, added to the update."""
    (length,) = struct.unpack("<Q", answer.update[:8])
    header, data = json.loads(answer.update[8 : 8 + length]), answer.update[8 + length :]
    parts = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        numbers = array.array("f")
        numbers.frombytes(data[first:last])
        parts[name] = (entry, numbers)
        state = {"dtype": kind, "shape": entry["shape"] if shape is None else shape}
        count = len(numbers) if shape is None else math.prod(shape)
        parts[name.replace("weights/", f"optimizer/{buffer}/")] = (state, array.array(KINDS[kind], [value] * count))
    return safetensors(header["__metadata__"], parts)


def with_scale(answer, kind, *numbers):
    """A scale of fp16's losses, added to the update."""
    (length,) = struct.unpack("<Q", answer.update[:8])
    header, data = json.loads(answer.update[8 : 8 + length]), answer.update[8 + length :]
    parts = {"scaler/scale": ({"dtype": kind, "shape": []}, array.array(KINDS[kind], numbers))}
    parts["scaler/growth_tracker"] = ({"dtype": "I64", "shape": []}, array.array("q", [0]))
    metadata = header.pop("__metadata__")
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        parts[name] = (entry, array.array("B", data[first:last]))
    return safetensors(metadata, parts)


def renamed(answer):
    return answer.update.replace(b"weights/", b"weighty/")


def flood(answer):
    while True:
        say("beat", cpu_s=0.0)


def beats(answer):
    """Alive as long as anybody listens, and never done."""
    import select

    while not select.select([sys.stdin], [], [], 0.05)[0]:
        say("beat", cpu_s=0.0)
    os._exit(0)


def hold_the_pipe(answer):
    if os.fork() == 0:
        signal.alarm(3)
        signal.pause()
    os._exit(1)


LIES = {
    # frames
    "noise": lambda a: raw(bytes(range(255, 191, -1))),
    "endless-frame": lambda a: raw(struct.pack("<Q", 2**62)),
    "frame-above-the-cap": lambda a: raw(struct.pack("<Q", 4 * len(a.update) + 3 * 2**20)),
    "empty-frame": lambda a: frame(b""),
    "header-beyond-frame": lambda a: frame(struct.pack("<I", 1000) + b"{}"),
    "header-no-json": lambda a: frame(struct.pack("<I", 4) + b"{{{{"),
    "header-no-text": lambda a: frame(struct.pack("<I", 4) + b"\xff\xfe\xfd\xfc"),
    "header-a-list": lambda a: frame(pack([1, 2])),
    "header-too-deep": lambda a: frame(struct.pack("<I", 200_000) + b"[" * 200_000),
    "kind-unknown": lambda a: say("gift"),
    "kind-missing": lambda a: frame(pack({})),
    "kind-a-number": lambda a: frame(pack({"kind": 5})),
    "beat-more-keys": lambda a: say("beat", cpu_s=1.0, more=1),
    "beat-fewer-keys": lambda a: say("beat"),
    "beat-text": lambda a: say("beat", cpu_s="1.0"),
    "beat-nan": lambda a: say("beat", cpu_s=math.nan),
    "beat-negative": lambda a: say("beat", cpu_s=-1.0),
    "beat-with-body": lambda a: say("beat", b"body", cpu_s=1.0),
    "ready-twice": lambda a: say("ready"),
    "result-empty": lambda a: say("result"),
    "result-noise": lambda a: say("result", b"\x02\x00\x00\x00[]"),
    "result-more-keys": lambda a: say("result", b"", bonus=True),
    # results
    "no-samples": lambda a: a.send(samples=...),
    "no-run": lambda a: a.send(run=...),
    "one-key-more": lambda a: a.send(admin=True),
    "epoch-a-text": lambda a: a.send(epoch="1"),
    "attempt-a-flag": lambda a: a.send(attempt=True),
    "samples-a-fraction": lambda a: a.send(samples=63.5),
    "samples-negative": lambda a: a.send(samples=-64),
    "samples-huge": lambda a: a.send(samples=10**30),
    "loss-nan": lambda a: a.send(train_loss=math.nan),
    "loss-a-text": lambda a: a.send(train_loss="low"),
    "cpu-infinite": lambda a: a.send(cpu_s=math.inf),
    "whole-a-number": lambda a: a.send(whole=1),
    "error-and-weights": lambda a: a.send(error="all is well", kind="refused"),
    "neither": lambda a: a.send(b"", whole=False),
    "kind-of-failure-unknown": lambda a: a.send(b"", whole=False, error="tired", kind="bored"),
    "error-without-end": lambda a: a.send(b"", whole=False, error="x" * 100_000, kind="refused"),
    "joules-of-nowhere": lambda a: a.send(energy_j=1.0),
    "joules-by-rumour": lambda a: a.send(energy_j=1.0, provenance="rumour"),
    "joules-negative": lambda a: a.send(energy_j=-1.0, provenance="measured"),
    "run-a-list": lambda a: a.send(run=["run"]),
    "anothers-name": lambda a: a.send(node="edge-2"),
    "nobodys-name": lambda a: a.send(node="moon"),
    # updates
    "one-sample-more": lambda a: a.send(samples=65),
    "a-million-samples": lambda a: a.send(samples=10**6),
    "no-sample": lambda a: a.send(samples=0),
    "years-of-cpu": lambda a: a.send(cpu_s=1e9),
    "years-of-wall": lambda a: a.send(wall_s=1e9),
    "joules-of-a-city": lambda a: a.send(energy_j=1e15, provenance="measured"),
    "weights-times-900": lambda a: a.send(a.tensors(times(900.0))),
    "weights-times-50": lambda a: a.send(a.tensors(times(50.0))),
    "one-weight-huge": lambda a: a.send(a.tensors(one_is(1e30))),
    "nan": lambda a: a.send(a.tensors(one_is(math.nan))),
    "infinity": lambda a: a.send(a.tensors(one_is(math.inf))),
    "truncated": lambda a: a.send(a.update[:-4]),
    "longer": lambda a: a.send(a.update + b"0000"),
    "no-weights": lambda a: a.send(b""),
    "a-pickle": lambda a: a.send(b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01x."),
    "other-names": lambda a: a.send(renamed(a)),
    "other-kind": lambda a: a.send(a.update.replace(b'"F32"', b'"I32"')),
    "momentum-1e30": lambda a: a.send(with_state(a, "momentum_buffer", 1e30)),
    "state-of-another-optimizer": lambda a: a.send(with_state(a, "exp_avg", 1.0)),
    "momentum-of-a-kind-without-arithmetic": lambda a: a.send(with_state(a, "momentum_buffer", 1, "F8_E4M3")),
    "momentum-in-whole-numbers": lambda a: a.send(with_state(a, "momentum_buffer", 10**15, "I64")),
    "momentum-without-shape": lambda a: a.send(with_state(a, "momentum_buffer", 1.0, shape=[])),
    "scale-complex": lambda a: a.send(with_scale(a, "C64", 65536.0, 0.0)),
    "state-nan": lambda a: a.send(with_state(a, "momentum_buffer", math.nan)),
    # behaviour
    "dies": lambda a: os._exit(3),
    "dies-in-a-frame": lambda a: (raw(struct.pack("<Q", 100) + b"half"), os._exit(3)),
    "hangs-up": lambda a: (OUT.close(), os.close(1), wait()),
    "silent": lambda a: wait(),
    "beats-for-ever": beats,
    "beats-without-pause": flood,
    "answers-an-older-epoch": lambda a: a.send(epoch=0),
    "answers-another-run": lambda a: a.send(run="other"),
    "child-holds-the-pipe": hold_the_pipe,
    "says-late": lambda a: a.send(b"", whole=False, error="took my time", kind="late"),
    "says-refused": lambda a: a.send(b"", whole=False, error="no", kind="refused", cpu_s=1e12),
    "says-user": lambda a: a.send(b"", whole=False, error="net.py:1: ValueError: no", kind="user"),
    "says-broken": lambda a: say("broken", failure="refused", error="halfway"),
    "answers-twice": lambda a: (a.send(), a.send()),
}
STARTS = {
    "dies-at-once": lambda: os._exit(4),
    "starts-with-noise": lambda: raw(b"hello, world; this is no frame of ours"),
    "beats-before-ready": lambda: say("beat", cpu_s=0.0),
    "broken-at-once": lambda: say("broken", failure="refused", error="no such module"),
    "broken-by-user": lambda: say("broken", failure="user", error="net.py:1: ValueError: no"),
    "answers-unasked": lambda: say("result"),
}


def first_time():
    try:
        os.close(os.open(MARK, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


SAMPLES = {}


def main():
    header, body = receive()
    (length,) = struct.unpack("<Q", body[:8])
    tensors = json.loads(body[8 : 8 + length])
    SAMPLES.update({node: tensors[f"labels/{node}"]["shape"][0] for node in header["nodes"]})
    mine = NODE in header["nodes"]
    if mine and LIE in STARTS and (WHEN == "always" or first_time()):
        STARTS[LIE]()
        wait()
    say("ready")
    while True:
        _, body = receive()
        answer = Answer(body)
        if mine and LIE in LIES and (WHEN == "always" or answer.task["attempt"] == 0):
            LIES[LIE](answer)
        else:
            answer.send()


main()
