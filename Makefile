# The two commands of the README are `make demo` and `make test`; both set up what they need in .venv.
PY := .venv/bin/python
STAMP := .venv/.ready
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
# tests start hundreds of processes: byte code is kept between them, whatever this shell says of it
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo fast test test-core soak bench check docs
setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	python3 -m venv .venv
	$(PY) -m pip install -q -c constraints.txt -e ".[train,data,figures,web,flower,transformers,export,dev]"
	$(PY) -m compileall -q src/relaytrain
	touch $@

demo: setup
	@mkdir -p figures
	.venv/bin/relaytrain plan quickstart --figure figures/quickstart.svg
	.venv/bin/relaytrain run quickstart --seed 0
	@echo "the same target by other strategies, all trained (fixed: the schedule that recorded relays show to be best;"
	@echo "hindsight: the cheapest of forty schedules); one run is luck, so means over other seeds follow:"
	$(PY) benchmarks/savings.py --only 0 --recorded 4 --others figures/quickstart-rows.json
	.venv/bin/relaytrain report --baselines figures/quickstart-rows.json --out figures/quickstart.html
	@echo "the plan as a picture: figures/quickstart.svg; the run as a page: figures/quickstart.html"

fast: setup
	$(PY) -m pytest -n 2 --dist worksteal -m "not slow and not soak"

# types are looked at beside the other tests (tests/test_types.py); three processes, for a tenth of the time one waits for
# processes that it has started
test: setup
	$(PY) -m ruff check src tests benchmarks examples
	$(PY) -m pytest -n 3 --dist worksteal -m "not soak"

test-core: setup
	$(PY) -m pytest -n 2 --dist worksteal -m "not soak and not train"

soak: setup
	RELAYTRAIN_TIER=soak $(PY) -m pytest -n 2

bench: setup
	$(PY) benchmarks/planning.py

check: setup
	$(PY) -m ruff check src tests benchmarks examples
	$(PY) -m mypy

docs: setup
	$(PY) -m pip install -q -c constraints.txt -e ".[docs]"
	RELAYTRAIN_DOCS=all $(PY) -m pytest -n 2 tests/docs
	.venv/bin/sphinx-build -q -W --keep-going -b html docs docs/_build
	@echo "the pages: docs/_build/index.html"
