# One line a job. Everything happens in .venv, made on first use.
PYTHON ?= python3
PYTHON313 ?= python3.13
BIN := .venv/bin
PIP_IN := bin/python -m pip install --quiet --disable-pip-version-check -c
PIP := .venv/$(PIP_IN) constraints.txt
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal -q
LOWEST_FILES := $(BIN)/coverage report --sort=cover | sed -n '1,12p;$$p'

.PHONY: run test test-all coverage test-lowest test-py313 lint bench bench-uci bench-real bench-splits bench-images bench-coverage bench-tables bench-width bench-thompson bench-weak-spots bench-rl bench-demo bench-serving reproduce docs pictures site site-check clean

run: .venv/run  ## fit scikit-learn's diabetes data: a model, a report and scores
	$(BIN)/anchored fit diabetes --out results/diabetes

test: lint  ## lint, types, import rules, then all tests but the slow ones
	$(PYTEST) -m "not slow" --durations=12

coverage: .venv/test  ## the same tests, and the lines they cover: the ten lowest files and the total
	$(PYTEST) -m "not slow" --cov --cov-report=
	@$(LOWEST_FILES)

test-all: lint  ## the slow statistical tests too
	$(PYTEST)

test-lowest: .venv-lowest/test  ## the tests with the lowest versions that pyproject.toml claims
	$(subst .venv,.venv-lowest,$(PYTEST)) -m "not slow" -W ignore::DeprecationWarning

test-py313: .venv-py313/test  ## the tests with Python 3.13
	$(subst .venv,.venv-py313,$(PYTEST)) -m "not slow"

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/codespell

bench: .venv/bench  ## speed beside PyTorch, and memory; fails below a target
	$(BIN)/python -m benchmarks.run

bench-uci: .venv/test  ## the UCI table with the defaults and with the paper's settings, hours
	$(BIN)/anchored reproduce table-uci --preset defaults --out docs/benchmarks
	$(BIN)/anchored reproduce table-uci --out docs/benchmarks
	$(BIN)/anchored reproduce table-uci --preset paper-splits --methods anchored-5x50,relu-gp --out docs/benchmarks
	$(BIN)/python -m benchmarks.paper_protocol
	$(BIN)/python -m benchmarks.paper_starts

bench-real: .venv/outsiders  ## real tables beside other methods, and gap and tail splits, hours
	$(BIN)/anchored reproduce table-real --out docs/benchmarks/real
	$(BIN)/anchored reproduce table-real --methods ngboost,realmlp,tabm --splits 1 --out docs/benchmarks/real
	$(BIN)/anchored reproduce table-gap --out docs/benchmarks/real
	$(BIN)/python -m benchmarks.real_page

bench-splits: .venv/test  ## all splits of a table in one program, or side by side, minutes
	$(BIN)/python -m benchmarks.splits

bench-images: .venv/bench  ## networks for images beside PyTorch, minutes
	$(BIN)/python -m benchmarks.images

bench-coverage: .venv/test  ## truths drawn from the prior: do error bars hold them? about 40 minutes
	$(BIN)/anchored reproduce table-coverage --out docs/coverage

bench-tables: .venv/run  ## coverage and seconds of `anchored fit` on five tables, minutes
	$(BIN)/python -m benchmarks.own_tables

bench-width: .venv/test  ## ensembles of growing width beside the exact GP, minutes
	$(BIN)/python -m benchmarks.width

bench-thompson: .venv/test  ## Thompson sampling on Hartmann-6, about 25 minutes
	$(BIN)/python -m benchmarks.thompson

bench-weak-spots: .venv/test  ## where error bars are known to be weak: coverage, calibration of classes
	$(BIN)/python -m benchmarks.weak_spots

bench-rl: .venv/bench  ## agents beside a plain PyTorch loop, minutes; fails below a target
	$(BIN)/python -m benchmarks.rl
	$(BIN)/python -m benchmarks.rl_planning

bench-demo: .venv/test  ## pictures a second, delays, fifty clients and hostile messages, minutes
	$(BIN)/python -m benchmarks.demo

bench-serving: .venv/serving  ## the same rows in every engine, the service under load and hostile requests; 20 million rows
	$(BIN)/python -m benchmarks.serving
	$(BIN)/python -m benchmarks.large_predictions

reproduce: .venv/test  ## every figure on inference, about 35 minutes; data from ANCHORED_DATA or the web
	$(BIN)/anchored reproduce all --out docs/reproduction

docs: .venv/run  ## draw the README's picture and write the pages made from records
	$(BIN)/python examples/six_points.py docs/images/six_points.png
	$(BIN)/anchored reproduce --page docs/reproduction.md --out docs/reproduction
	$(BIN)/python -m benchmarks.uci_page
	$(BIN)/python -m benchmarks.own_tables --page
	$(BIN)/python -m benchmarks.width --page
	$(BIN)/python -m benchmarks.thompson --page
	$(BIN)/python -m benchmarks.ood_page
	$(BIN)/python -m benchmarks.coverage_page
	$(BIN)/python -m benchmarks.real_page
	$(BIN)/python -m benchmarks.rl_page
	$(BIN)/python -m benchmarks.own_priors --page

site: .venv/site  ## build the documentation site in build/site/html, minutes; warnings are errors
	$(BIN)/python site/anchored_site/assemble.py build/site/source
	$(BIN)/python -m sphinx -W --keep-going -q -b html -c site build/site/source build/site/html
	@echo "Open build/site/html/index.html"

site-check: .venv/test site  ## open every page of the built site in Chromium, minutes
	$(BIN)/python -m pytest -q tests/site/test_built.py

pictures: .venv/test  ## take the screenshots of the documentation of the demo, in Chromium
	$(BIN)/python examples/demo_pictures.py docs/images

.venv/python:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/run: .venv/python pyproject.toml constraints.txt
	$(PIP) -e ".[plot,table]"
	@touch $@

.venv/test: .venv/python pyproject.toml constraints.txt
	$(PIP) -e ".[test]"
	@sh tests/get_chromium.sh
	@touch $@ .venv/run

.venv/serving: .venv/test
	$(PIP) -e ".[test,ray,spark]"
	@touch $@

# Warnings of other packages about packages newer than they are do not count here.
.venv-lowest/test: pyproject.toml .ci/lowest.py
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python .ci/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/$(PIP_IN) .venv-lowest/constraints.txt -e ".[test]"
	@touch $@

.venv-py313/test: pyproject.toml constraints.txt
	@$(PYTHON313) --version || { echo "No $(PYTHON313) here: make test-py313 PYTHON313=/path/to/python3.13"; exit 1; }
	$(PYTHON313) -m venv .venv-py313
	.venv-py313/$(PIP_IN) constraints.txt -e ".[test]"
	@touch $@

.venv/site: .venv/python pyproject.toml constraints.txt
	$(PIP) -e ".[site]"
	@touch $@ .venv/run

.venv/bench: .venv/test
	$(PIP) -e ".[torch]"
	@touch $@

.venv/outsiders: .venv/test
	$(PIP) -e ".[outsiders]"
	@touch $@

clean:
	rm -rf .venv .venv-* build dist results .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
