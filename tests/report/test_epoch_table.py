"""A run's tables read back by others: the same bits, one row an epoch that stands."""

from __future__ import annotations

import csv
import json
from importlib.util import find_spec

import pytest

import relaytrain as rt
from relaytrain.cli.app import main
from relaytrain.core.errors import UsageError
from relaytrain.export.epoch_table import COLUMNS, export_tables, tables_of

RUN = "quickstart-0001"


def test_a_csv_gives_back_the_same_numbers(play, store, tmp_path):
    view = play()
    export_tables(store, RUN, tmp_path / "tables", "csv", force=False)
    for name, rows in tables_of(view).items():
        with (tmp_path / "tables" / f"{name}.csv").open(newline="") as file:
            read = list(csv.DictReader(file))
        assert len(read) == len(rows)
        for got, row in zip(read, rows, strict=True):
            for column, kind in COLUMNS[name]:
                value = row.get(column)
                assert got[column] == "" if value in (None, "") else kind(got[column]) == value
    with (tmp_path / "tables" / "epochs.csv").open(newline="") as file:
        assert [float(row["loss"]) for row in csv.DictReader(file)] == [epoch.loss for epoch in view.epochs]


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow")
def test_parquet_has_the_same_rows_and_a_file_alone_is_the_epochs(play, store, tmp_path):
    import pyarrow.parquet as pq

    view = play()
    export_tables(store, RUN, tmp_path / "epochs.parquet", "parquet", force=False)
    read = pq.read_table(tmp_path / "epochs.parquet")
    assert read.column_names == [name for name, _ in COLUMNS["epochs"]]
    assert read.column("loss").to_pylist() == [epoch.loss for epoch in view.epochs]
    assert read.column("accuracy").to_pylist() == [epoch.accuracy for epoch in view.epochs]


def test_nothing_is_overwritten_and_a_run_without_epochs_has_no_table(play, store, tmp_path, capsys):
    play()
    file = tmp_path / "epochs.csv"
    arguments = ["export", RUN, str(file), "--as", "csv", "--store", str(store.folder), "--format", "json"]
    assert main(arguments) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "relaytrain.exported-tables/1" and said["files"] == [str(file)]
    assert main(arguments) == 2 and "add --force" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0
    with store.create_run("empty-run-1", {}), pytest.raises(UsageError, match="no epoch done yet"):
        export_tables(store, "empty-run-1", tmp_path / "none", "csv", force=False)


def test_a_comparison_is_a_table_in_notebooks():
    page = rt.compare("smart_factory")._repr_html_()
    assert page.count("<tr") > 5 and "optimum" in page and "<script" not in page
