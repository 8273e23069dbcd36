"""Bad input: always one `ScenarioError` that names file, key, got and expected; never anything else, nothing
written."""

from __future__ import annotations

from pathlib import Path

import pytest
from malformed import BASE, CASES, EPOCH, Case

from relaytrain.cli.app import main
from relaytrain.core.errors import ScenarioError
from relaytrain.scenario import load_scenario


def test_there_are_enough_and_ids_are_unique() -> None:
    assert len(CASES) >= 150
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_refused(case: Case, tmp_path: Path) -> None:
    path = case.write(tmp_path)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    message = str(caught.value)
    assert str(path) in message
    assert "got " in message
    assert "expected " in message
    assert case.says in message
    assert len(message) < 3000
    assert message.isprintable() or set(message) - {"\n"} <= {c for c in message if c.isprintable()}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_command_line_ends_with_3(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = case.write(tmp_path)
    assert main(["plan", path.name]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert path.name in said.err
    assert "Traceback" not in said.err
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("text", [BASE, EPOCH], ids=["base", "epoch"])
def test_the_untouched_texts_are_accepted(text: str, tmp_path: Path) -> None:
    path = tmp_path / "ok.toml"
    path.write_text(text)
    scenario = load_scenario(path)
    assert load_scenario(scenario.resolved) == scenario


ACCEPTED = {
    "bom": b"\xef\xbb\xbf" + BASE.encode(),
    "crlf": BASE.replace("\n", "\r\n").encode(),
    "negative-zero-jump": BASE.replace("jump = 0.02", "jump = -0.0").encode(),
    "negative-zero-floor": BASE.replace("floor = 0.1", "floor = -0.0").encode(),
    "negative-zero-loss": BASE.replace("loss = 0.3", "loss = -0.0").encode(),
    "one-version-one-node": EPOCH.encode(),
    "target-above-start": BASE.replace("loss = 0.3", "loss = 3.0").encode(),
    "infinite-change": BASE.replace("seconds = 1.5", "seconds = inf").encode(),
    "infinite-jump": BASE.replace("jump = 0.02", "jump = inf").encode(),
    "infinite-pair": BASE.replace("[planner.grid]", "[planner.grid]").replace('"2 kJ"', "inf").encode(),
    "no-deadline": EPOCH.replace("loss = 0.3", "loss = 0.3\ndeadline = inf").encode(),
    "integers-for-floats": BASE.replace("scale = 5.0", "scale = 5").encode(),
}


@pytest.mark.parametrize("id", ACCEPTED)
def test_accepted(id: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_bytes(ACCEPTED[id])
    scenario = load_scenario(path)
    assert load_scenario(scenario.resolved) == scenario
    assert "-0.0," not in repr(scenario.resolved) and "-0.0}" not in repr(scenario.resolved)


def test_several_faults_come_in_one_message(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    text = BASE.replace("loss = 0.3", "loss = -1").replace("drop = 0.9", "drop = -1").replace("seed = 7", "seed = -7")
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    for line, key in zip(lines, ("target.loss", "law.curves[0].drop", "planner.seed"), strict=True):
        number = next(
            n
            for n, row in enumerate(text.splitlines(), 1)
            if row == f"{key.rpartition('.')[2]} = -{line.split('got -')[1].split(',')[0]}"
        )
        assert line.startswith(f"{path}:{number}: {key}: got -")


def test_more_than_five_faults_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(BASE + "".join(f"[x{i}]\n" for i in range(9)))
    with pytest.raises(ScenarioError, match=r"\.\.\. and 4 more"):
        load_scenario(path)


@pytest.mark.parametrize("source", ["quickstrt", "nowhere.toml", "", "a\0b", "x" * 5000, ".", "/dev/zero"])
def test_sources_that_are_no_file(source: str) -> None:
    with pytest.raises(ScenarioError, match="expected"):
        load_scenario(source)


@pytest.mark.parametrize("source", [None, 3, ["quickstart"], {"a": object()}, {3: 4}, {}, object()])
def test_sources_of_other_types(source: object) -> None:
    with pytest.raises(ScenarioError, match="expected"):
        load_scenario(source)  # type: ignore[arg-type]


def test_a_misspelt_preset_is_recognised() -> None:
    with pytest.raises(ScenarioError, match="did you mean 'quickstart'"):
        load_scenario("quickstrt")
