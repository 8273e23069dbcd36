"""mcPipe's examples: the boxes obey their dependencies, and lifetimes are those that the product counts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from relaytrain.experiments.mcpipe.example import HOP, WORKERS, lives, most, play
from relaytrain.planners.pipeline.version_lifetimes import peak


@pytest.mark.parametrize("window", [1, 2, 4, 7])
def test_every_box_waits_for_what_it_needs(window):
    example = play(window, 80)
    ends = {(box.worker, box.what, box.index): box.end for box in example}
    for worker, boxes in enumerate(example.boxes):
        assert all(a.end <= b.start for a, b in pairwise(boxes))
        for box in boxes:
            at = box.worker
            if (box.what == "A" and at) or (box.what == "D" and at == WORKERS - 1):
                assert ends[at - 1, "A", box.index] + HOP <= box.start
            elif box.what == "D" or (at == 0 and box.what == "U"):
                assert ends[at + 1, "D", box.index] + HOP <= box.start
            elif box.what == "U":
                assert ends[at, "D", box.index] == box.start
            if box.what == "A" and box.index >= window:
                assert ends[at, "U", box.index - window] <= box.start
        assert worker == WORKERS - 1 or example.updates(worker, 80) > 3


@pytest.mark.parametrize("window", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("worker", range(WORKERS - 1))
def test_lifetimes_are_those_the_product_counts(window, worker):
    example = play(window, 70)
    counted, found = peak(example.schedule(70), worker), lives(example, worker, 70)
    assert most(found.stash) == counted.versions
    assert most(found.pairs) == counted.pending
    assert most(found.weights) == 1
