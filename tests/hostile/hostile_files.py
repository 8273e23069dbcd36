"""Files that nobody should have to open: fitted estimators, atlases, scenarios, traces, start files and stores, each by
its seed. `case(seed, folder)` writes one into `folder` and says which command is to read it."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from relaytrain.core.problem import Pair
from relaytrain.estimators.learned.auto import RunModel
from relaytrain.estimators.learned.change_model import ChangeModel, Linear
from relaytrain.estimators.learned.features import NAMES
from relaytrain.estimators.learned.fitted import SCHEMA, Fitted, _packed
from relaytrain.estimators.learned.fitted_parts import CHANGE_INPUTS
from relaytrain.estimators.learned.trees import Forest
from relaytrain.estimators.learned.zero_trace import SHIPPED, load_fitted
from relaytrain.scenario import new_scenario_text
from relaytrain.scenario.read import PRESETS
from relaytrain.traces.atlas import Atlas, AtlasLeg, LegKey
from relaytrain.traces.trace_files import BUNDLED

KINDS = ("fitted", "scenario", "traces", "atlas", "start", "scenario", "bomb", "store")
SPECIAL = ("fifo", "zero", "full", "loop", "dangling", "folder", "sentinel", "self")


@dataclass(frozen=True)
class Case:
    """What to call: a command line, or one of the readers of `hostile_worker`; and a word about the file."""

    seed: int
    kind: str
    what: str
    call: tuple[str, ...]
    allowed: tuple[int, ...] = (3,)


def case(seed: int, folder: Path, sentinel: Path) -> Case:
    """The hostile file number `seed`."""
    kind = KINDS[seed % len(KINDS)]
    made: Case = globals()[f"_{kind}"](seed, random.Random(seed), folder, sentinel)
    return made


def special(path: Path, how: str, sentinel: Path) -> str:
    """Something that is no regular file, or a way to one."""
    if how == "fifo":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    else:
        places = {
            "zero": "/dev/zero", "full": "/dev/full", "loop": path, "dangling": path.with_name("nowhere"),
            "sentinel": sentinel / "secret", "self": "/proc/self/mem",
        }  # fmt: skip
        path.symlink_to(places[how])
    return how


# --- fitted estimators


def good_fit() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and body of a small fit that has all parts."""
    chance = np.random.default_rng(3)
    trees, nodes = 20, 7
    inner = np.tile(np.array([1, 1, 1, 0, 0, 0, 0], bool), trees)
    start = np.repeat(np.arange(trees) * nodes, nodes)
    forests = tuple(
        Forest(
            np.where(inner, chance.integers(0, len(NAMES), trees * nodes), -1).astype(np.int32),
            chance.normal(size=trees * nodes),
            inner.copy(),
            np.where(inner, start + np.tile([1, 3, 5, 0, 0, 0, 0], trees), 0).astype(np.int32),
            np.where(inner, start + np.tile([2, 4, 6, 0, 0, 0, 0], trees), 0).astype(np.int32),
            np.where(inner, 0.0, 0.001 * (level - 1)),
            (np.arange(trees) * nodes).astype(np.int32),
            0.02 * (level - 1),
        )
        for level in (1, 0, 2)
    )
    wide = CHANGE_INPUTS["nodes"]
    line = Linear(np.zeros(wide), 0.1, np.zeros(wide), np.ones(wide), -0.1, 0.1)
    net = load_fitted(SHIPPED).run.nets[0]
    fit = Fitted("auto", "test", RunModel(forests, (net,), warm=np.zeros(5)), ChangeModel("nodes", "jump", (line,)), {})
    arrays, body = _packed(fit)
    return arrays, {**body, "schema": SCHEMA}


def write_fitted(path: Path, arrays: dict[str, np.ndarray], body: Any) -> None:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    np.savez(path, **arrays, json=np.frombuffer(text, np.uint8))


def _fitted(seed: int, chance: random.Random, folder: Path, sentinel: Path) -> Case:
    path = folder / "fit.npz"
    ways = (_spoil_index, _spoil_shape, _spoil_figure, _spoil_body, _spoil_zip, _spoil_header, _spoil_bytes)
    if seed % 11 == 0:
        what = special(path, chance.choice(SPECIAL), sentinel)
    else:
        way = chance.choice(ways)
        what = f"{way.__name__} {way(chance, path, *good_fit())}"
    call = ("plan", "quickstart", "--estimator", "auto", "--fitted", str(path), "-q")
    return Case(seed, "fitted", what, call)


def _spoil_index(chance: random.Random, path: Path, arrays: dict[str, np.ndarray], body: Any) -> str:
    name = f"forest{chance.randrange(3)}." + chance.choice(("feature", "left", "right", "roots"))
    values = arrays[name].astype(chance.choice((np.int64, np.int32)))
    inner = np.flatnonzero(arrays[name.split(".")[0] + ".feature"] >= 0)
    at = int(chance.choice(inner)) if not name.endswith("roots") else chance.randrange(1, len(values))
    bad = chance.choice((10**6, 2**31 - 1, -5, len(NAMES) + 200, 10**9, 0))
    if values.dtype == np.int64:
        bad = chance.choice((2**32, 2**40 + 1, -(2**33), bad))
    values[at] = len(NAMES) if name.endswith("feature") and bad in (0, -5) else bad
    write_fitted(path, {**arrays, name: values}, body)
    return f"{name}[{at}] = {values[at]}"


def _spoil_shape(chance: random.Random, path: Path, arrays: dict[str, np.ndarray], body: Any) -> str:
    name = chance.choice([n for n in arrays if n not in ("warm",)])
    array = arrays[name]
    if array.ndim == 0:
        arrays[name] = np.zeros(3)
    else:
        way = chance.choice(("cut", "longer", "deeper", "none", "words", "object"))
        arrays[name] = {
            "cut": lambda: array[:-1], "longer": lambda: np.concatenate([array, array]), "deeper": lambda: array[None],
            "none": lambda: array[:0], "words": lambda: array.astype("U8"), "object": lambda: array.astype("c16"),
        }[way]()  # fmt: skip
    if chance.random() < 0.2:
        del arrays[name]
    write_fitted(path, arrays, body)
    return name


def _spoil_figure(chance: random.Random, path: Path, arrays: dict[str, np.ndarray], body: Any) -> str:
    name = chance.choice([n for n, a in arrays.items() if a.dtype.kind == "f" and a.size])
    array = arrays[name].copy()
    array.reshape(-1)[chance.randrange(array.size)] = chance.choice((np.nan, np.inf, -np.inf, 1e300))
    if name.endswith("threshold"):
        array[:] = np.nan
    write_fitted(path, {**arrays, name: array}, body)
    return name


def _spoil_body(chance: random.Random, path: Path, arrays: dict[str, np.ndarray], body: Any) -> str:
    changes: tuple[tuple[str, Any], ...] = (
        ("run.rounds", 10**9), ("run.rounds", -1), ("run.rounds", 1e9), ("run.rounds", "3"), ("run.tree_share", 1e400),
        ("run.tree_share", -3), ("run.tail_power", 1e6), ("run.forests", 10**9), ("run.forests", 2), ("run.nets", []),
        ("run.nets", [{}] * 10**4), ("run.unknown", list(range(10**5))), ("run.bound_offset", "x"), ("run", []),
        ("change.parts", []), ("change.inputs", "probe"), ("change.parts", [{"kind": "net", "layers": 10**9}]),
        ("change.weights", [1e308, 1]), ("change.factor", None), ("metric", ["test"]), ("name", {}), ("about", "x"),
        ("run.calibrated", 7), ("run.unknown", [2**70]), ("schema", "relaytrain.fitted/99"),
    )  # fmt: skip
    key, value = chance.choice(changes)
    *outer, last = key.split(".")
    table = body[outer[0]] if outer else body
    table[last] = value
    if key == "run.nets" and not value:
        body["run"]["forests"] = 0
    text = json.dumps(body).replace("Infinity", "1e999").encode()
    write_fitted(path, arrays, text)
    return f"{key} = {str(value)[:30]}"


def _spoil_zip(chance: random.Random, path: Path, arrays: dict[str, np.ndarray], body: Any) -> str:
    way = chance.choice(("bomb", "many", "twice", "lzma", "deep", "empty"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA if way == "lzma" else zipfile.ZIP_DEFLATED) as archive:
        if way == "bomb":
            archive.writestr("json.npy", b"\0" * (80 << 20))
        elif way == "many":
            for i in range(3000):
                archive.writestr(f"{i}.npy", b"")
        elif way == "deep":
            text = np.frombuffer(b"[" * 200_000, np.uint8)
            held = io.BytesIO()
            np.save(held, text)
            archive.writestr("json.npy", held.getvalue())
        elif way != "empty":
            held = io.BytesIO()
            np.save(held, np.zeros(4))
            archive.writestr("warm.npy", held.getvalue())
            if way == "twice":
                archive.writestr("warm", held.getvalue())
    return way


def _spoil_header(chance: random.Random, path: Path, arrays: dict[str, np.ndarray], body: Any) -> str:
    """An array that claims another size, kind or order than it has."""
    descr = chance.choice(("'<f8'", "'|O'", "[('a', '<f8')]", "'<f8'", "'|V0'", "'<U0'"))
    shape = chance.choice(("(1000000000000,)", "(999999999,)", "(-1,)", "(2, 3)", "(0, 4000000000)", "((((1,),),),)"))
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    if chance.random() < 0.2:
        head = b"(" * 5000
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + b"\0" * 64
    write_fitted(path, arrays, body)
    kept = {}
    with zipfile.ZipFile(path) as archive:
        kept = {name: archive.read(name) for name in archive.namelist()}
    kept["factors.npy"] = data
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in kept.items():
            archive.writestr(name, value)
    return f"{descr} {shape}"


def _spoil_bytes(chance: random.Random, path: Path, arrays: dict[str, np.ndarray], body: Any) -> str:
    write_fitted(path, arrays, body)
    raw = bytearray(path.read_bytes())
    if chance.random() < 0.5:
        path.write_bytes(raw[: chance.randrange(len(raw))])
        return "cut"
    for _ in range(3):  # in a local header or in packed bytes, not in what nobody reads
        place = raw.find(b"NUMPY", chance.randrange(len(raw) * 3 // 4))
        raw[place] ^= 1 << chance.randrange(7)
    path.write_bytes(raw)
    return "flipped"


# --- atlases


def good_atlas() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and body of a small one."""
    legs = {LegKey((), 0): AtlasLeg(2.3, [2.0, 1.0]), LegKey(((0, 2),), 1): AtlasLeg(1.5, [0.5], {"kind": "prune"})}
    atlas = Atlas("made", (Pair("full", "gold"), Pair("small", "bronze")), 0, seeds={0: legs, 4: legs})
    with np.load(io.BytesIO(atlas.to_bytes())) as file:
        arrays = dict(file)
    return arrays, json.loads(bytes(arrays.pop("json")))


def _atlas(seed: int, chance: random.Random, folder: Path, sentinel: Path) -> Case:
    path = folder / "atlas.npz"
    if seed % 11 == 0:
        what = special(path, chance.choice(SPECIAL), sentinel)
    else:
        way = chance.choice((_spoil_legs, _spoil_legs, _spoil_text, _spoil_zip, _spoil_header, _spoil_bytes))
        what = f"{way.__name__} {way(chance, path, *good_atlas())}"
    return Case(seed, "atlas", what, ("atlas", str(path)))


def _spoil_legs(chance: random.Random, path: Path, arrays: dict[str, np.ndarray], body: Any) -> str:
    name = chance.choice(sorted(arrays))
    way = chance.choice(("cut", "longer", "deeper", "narrow", "none", "figure"))
    array = arrays[name]
    if way == "figure":
        array = array.copy()
        array.flat[0] = -7 if array.dtype.kind == "i" else np.nan if name != "handed" else 1e300
    arrays[name] = {
        "cut": array[:-1], "longer": np.tile(array, (9, *[1] * (array.ndim - 1))), "deeper": array[None],
        "narrow": np.zeros(array.shape, np.int8), "none": np.zeros(0), "figure": array,
    }[way]  # fmt: skip
    write_fitted(path, arrays, body)
    return f"{name} {way}"


def _spoil_text(chance: random.Random, path: Path, arrays: dict[str, np.ndarray], body: Any) -> str:
    name = chance.choice(sorted(body))
    body[name] = chance.choice((None, 10**400, -1, 1e999, [], [[]], {"a": {}}, "x" * 10**6, [["a", "b"]] * 5000, True))
    write_fitted(path, arrays, body)
    return f"{name} = {str(body[name])[:40]}"


# --- scenarios


@cache
def _texts() -> tuple[str, ...]:
    return (*((PRESETS / f"{name}.toml").read_text() for name in ("fig5", "worlds")), new_scenario_text("x"))


def _scenario(seed: int, chance: random.Random, folder: Path, sentinel: Path) -> Case:
    path = folder / "s.toml"
    text = chance.choice(_texts())
    ways: dict[str, Callable[[], str | bytes]] = {
        "deep": lambda: "x = " + "[" * 5000,
        "dotted": lambda: ".".join("a" * 20_000) + " = 1",
        "large": lambda: text + "#" * (1 << 21),
        "bytes": lambda: bytes(chance.randrange(256) for _ in range(4000)),
        "null": lambda: text.replace("=", "\0=", 5),
        "digits": lambda: "schema = " + "9" * 10_000,
        "tables": lambda: "".join(f"[a{i}.b]\n" for i in range(50_000)),
        "twice": lambda: text + text,
        "names": lambda: text.replace("name", "n" * 5000, 1),
        "subnormal": lambda: text + "\n[target]\nloss = 1e-320\n",
        "words": lambda: text.replace("1", "'one'"),
        "minus": lambda: text.replace("= ", "= -", 40),
        "nan": lambda: text.replace("= 0", "= nan\n#"),
        "cut": lambda: text[: chance.randrange(40, len(text) - 40)] + '\n"',
    }
    if seed % 5 == 0:
        what = special(path, chance.choice(SPECIAL), sentinel)
    elif seed % 13 == 0:
        what, path = "long path", folder.joinpath(*["d" * 200] * chance.choice((2, 30)), "s.toml")
    else:
        what = chance.choice(list(ways))
        made = ways[what]()
        path.write_bytes(made if isinstance(made, bytes) else made.encode())
    return Case(seed, "scenario", what, (chance.choice(("validate", "plan")), str(path)))


BOMBS: tuple[tuple[str, ...], ...] = (
    ("fig5", "--rule", "literal", "--set", "planner.grid.loss_step=1e-5", "--set", "planner.grid.time_step=0.001"),
    ("fig5", "--rule", "literal", "--set", "planner.grid.loss_step=1e-4", "--set", "planner.grid.time_step=0.0005"),
    ("fig5", "--set", "planner.grid.loss_step=1e-9", "--set", "planner.grid.time_step=1e-6"),
    ("fig5", "--set", "target.loss=1e-320"),
    ("fig5", "--rule", "clamped", "--set", "planner.grid.loss_step=2e-5", "--set", "planner.grid.time_step=0.002"),
    ("fig5", "--set", "target.deadline=1e15"),
    ("fig5", "--set", "target.max_epochs=999999999999"),
)


def _bomb(seed: int, chance: random.Random, folder: Path, sentinel: Path) -> Case:
    if seed % 3 == 0:
        path = folder / "pairs.toml"
        path.write_text(many_pairs(chance.choice((128, 256, 400))))
        return Case(seed, "bomb", "many pairs", ("plan", str(path), "-q"), (0, 3, 4))
    arguments = chance.choice(BOMBS)
    return Case(seed, "bomb", " ".join(arguments), ("plan", *arguments, "-q"), (0, 3, 4))


def many_pairs(count: int, *, deadline: str = "60.0") -> str:
    """Sixteen versions, each on `count` / 16 node sets."""
    versions, sets = 16, count // 16
    lines = ["schema = 1", "[target]", "loss = 0.3", f"deadline = {deadline}", "[start]", "loss = 2.0"]
    lines += [f'[[versions]]\nname = "v{i}"' for i in range(versions)]
    lines += [f'[[node_sets]]\nname = "n{i}"' for i in range(sets)]
    for i in range(versions):
        for j in range(sets):
            pair = f'[[pairs]]\nversion = "v{i}"\nnodes = "n{j}"'
            lines.append(f"{pair}\nseconds = {1 + 0.37 * i + 0.11 * j}\nenergy = {50 - i - 0.3 * j}")
    lines += ["[[changes]]", "seconds = 0.5", "energy = 1.0", "[law]", 'kind = "level"', "robust_progress = 0.8"]
    lines += [
        f'[[law.curves]]\nversion = "v{i}"\nfloor = {0.05 + 0.01 * i}\ndrop = 2.0\nscale = {2 + i}\npower = 1.2'
        for i in range(versions)
    ]
    return "\n".join([*lines, "[[law.jumps]]", "jump = 0.01"]) + "\n"


# --- traces


def _traces(seed: int, chance: random.Random, folder: Path, sentinel: Path) -> Case:
    source = next(p for p in sorted(BUNDLED.iterdir()) if (p / "meta.json").exists())
    texts = {"meta.json": (source / "meta.json").read_bytes()}
    for name in ("epochs.csv", "switches.csv"):
        packed = source / f"{name}.gz"
        texts[name] = gzip.decompress(packed.read_bytes()) if packed.exists() else (source / name).read_bytes()
    name = chance.choice(list(texts))
    if seed % 4 == 0:
        for other, text in texts.items():
            if other != name:
                (folder / other).write_bytes(text)
        what = f"{name} is {special(folder / name, chance.choice(SPECIAL), sentinel)}"
        return Case(seed, "traces", what, ("read-traces", str(folder)))
    lines = texts[name].split(b"\n")
    way = chance.choice(("bomb", "cut", "cells", "nan", "null", "rows", "digits"))
    if way == "bomb" and name != "meta.json":
        (folder / f"{name}.gz").write_bytes(gzip.compress(b"\0" * (80 << 20)))
        texts.pop(name)
    elif way == "cut":
        texts[name] = texts[name][: len(texts[name]) // 2] + b"{"
    elif way == "cells":
        texts[name] = lines[0] + b",=cmd()\n" + b"\n".join(lines[1:])
    elif way == "nan":
        texts[name] = b"\n".join([lines[0], *(line.replace(b"0.", b"nan") for line in lines[1:])]) + b"x"
    elif way == "rows":
        texts[name] = lines[0] + b"\n" + (lines[min(1, len(lines) - 1)] + b"\n") * 200_000
    elif way == "digits":
        texts[name] = texts[name].replace(b"1", b"1" * 5000, 1)
    else:
        texts[name] = texts[name].replace(b"1", b"\0", 1)
    for other, text in texts.items():
        (folder / other).write_bytes(text)
    return Case(seed, "traces", f"{name}: {way}", ("read-traces", str(folder)))


# --- start files, which are safetensors


def _start(seed: int, chance: random.Random, folder: Path, sentinel: Path) -> Case:
    path = folder / "start.safetensors"
    if seed % 3 == 0:
        what = special(path, chance.choice(SPECIAL), sentinel)
        return Case(seed, "start", what, ("read-start", str(path)))
    spec = {"family": "cnn", "input": [1, 8, 8], "classes": 10, "widths": [8, 8, 8]}
    header: dict[str, Any] = {
        "__metadata__": {"relaytrain.checkpoint/1": json.dumps({"spec": spec, "version": "v"})},
        "weights/x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
    }
    ways: dict[str, Callable[[], None]] = {
        "huge shape": lambda: header["weights/x"].update(shape=[2**40]),
        "overlap": lambda: header["weights/x"].update(data_offsets=[0, 2**60]),
        "widths": lambda: spec.update(widths=[2**20] * 1000),
        "classes": lambda: spec.update(classes=2**62),
        "negative": lambda: header["weights/x"].update(data_offsets=[16, 0]),
        "kind": lambda: header["weights/x"].update(dtype="X99"),
        "names": lambda: header.update({f"weights/{i}": header["weights/x"] for i in range(20_000)}),
        "factory": lambda: spec.update(factory="os:system"),
        "no header": lambda: header.pop("__metadata__"),
    }
    what = chance.choice(list(ways))
    ways[what]()
    header["__metadata__"] = (
        {"relaytrain.checkpoint/1": json.dumps({"spec": spec, "version": "v"})} if "__metadata__" in header else {}
    )
    text = json.dumps(header).encode()
    size = chance.choice((len(text), len(text), 2**62, len(text) + 10**6))
    if chance.random() < 0.15:
        what, text = "deep", b"[" * 10**6
        size = len(text)
    path.write_bytes(struct.pack("<Q", size) + text + b"\0" * 16)
    return Case(seed, "start", f"{what}, header of {size}", ("read-start", str(path)))


# --- stores


def _store(seed: int, chance: random.Random, folder: Path, sentinel: Path) -> Case:
    base = folder / "runs.sqlite"
    way = chance.choice(("bytes", "empty", "text", "other tables", "cut", "huge page"))
    if way in ("other tables", "cut", "huge page"):
        with sqlite3.connect(base) as connection:
            connection.execute("CREATE TABLE runs (x)")
            connection.execute("CREATE VIEW events AS SELECT x FROM runs, runs AS b, runs AS c")
            connection.execute("INSERT INTO runs VALUES (zeroblob(100000))")
        connection.close()
        raw = bytearray(base.read_bytes())
        if way == "cut":
            raw = raw[: len(raw) // 2]
        if way == "huge page":
            raw[28:32] = b"\xff\xff\xff\xff"
        base.write_bytes(raw)
    else:
        base.write_bytes(
            {
                "bytes": bytes(chance.randrange(256) for _ in range(5000)),
                "empty": b"",
                "text": b"SQLite format 3\0" + b"x" * 4000,
            }[way]
        )
    verb = chance.choice((("ls",), ("show", "some-run-1"), ("store", "check"), ("report", "some-run-1")))
    call = (*verb, str(folder)) if verb[0] == "store" else (*verb, "--store", str(folder))
    return Case(seed, "store", f"{way}: {' '.join(verb)}", call, (0, 2, 9))


def random_pairs(count: int, seed: int = 0, *, deadline: float = 400.0) -> str:
    """As `many_pairs`, with costs, curves and changes drawn for every pair: much that is worth a look."""
    chance, versions = random.Random(seed), 16
    sets = count // versions
    lines = ["schema = 1", "[target]", "loss = 0.2", f"deadline = {deadline}", "[start]", "loss = 2.5"]
    lines += [f'[[versions]]\nname = "v{i}"' for i in range(versions)]
    lines += [f'[[node_sets]]\nname = "n{j}"' for j in range(sets)]
    curves = ["[law]", 'kind = "level"', "robust_progress = 0.85"]
    for i in range(versions):
        for j in range(sets):
            pair = f'version = "v{i}"\nnodes = "n{j}"'
            lines.append(
                f"[[pairs]]\n{pair}\nseconds = {chance.uniform(1, 9):.4f}\nenergy = {chance.uniform(1, 90):.4f}"
            )
            floor, scale, power = chance.uniform(0.02, 0.6), chance.uniform(3, 40), chance.uniform(0.7, 1.4)
            curves.append(
                f"[[law.curves]]\n{pair}\nfloor = {floor:.4f}\ndrop = 2.2\nscale = {scale:.3f}\npower = {power:.3f}"
            )
    lines += ["[[changes]]", "seconds = 0.3", "energy = 0.7", *curves, "[[law.jumps]]", "jump = 0.01"]
    return "\n".join(lines) + "\n"
