# `make` sets up .venv and makes every figure from measurements; `make help` names the rest.

PYTHON ?= python3
# Two: figures are drawn side by side; what measures takes all of them, and has no neighbour.
CORES ?= 2
ARGS ?=
# Two: a test worker holds torch and a compiler, over a gigabyte.
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
# Rules call `python -m ...`: they shall find this environment's.
export PATH := $(CURDIR)/$(BIN):$(PATH)

# nvidia-smi may be installed where no GPU is, and then prints why it failed.
GROUP := $(if $(shell nvidia-smi -L 2>/dev/null | grep '^GPU'),gpu,base)
# A larger group satisfies a smaller one: `make` after `make test` installs nothing.
INCLUDED_base := base
INCLUDED_gpu := base gpu
INCLUDED_test := base gpu test

# A GPU runs one measurement at a time, whatever CORES says.
# --resources takes every word up to the next option, a target too: it comes before another.
SNAKEMAKE = $(BIN)/snakemake --resources gpu=1 --cores $(CORES)
CUDA_FILES = $(wildcard kernels/*/*.cu kernels/*/*.cuh tests/*/*.cu experiments/*.cu)

.PHONY: doctor all quick smoke report docs resources release test browser lint clean distclean help \
	figures paper
.SECONDARY:
.DELETE_ON_ERROR:

all: $(VENV)/$(GROUP).stamp
	$(SNAKEMAKE) $(ARGS)

# Installs nothing, and needs nothing installed: .venv's Python answers where there is one.
doctor:
	@command -v $(PYTHON) >/dev/null || { echo "there is no '$(PYTHON)': install Python 3.11" \
		"or 3.12, and name it, as in: make doctor PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m workflow.doctor

# Snakemake heeds only the last --config: a quick run takes no other from ARGS.
quick: $(VENV)/$(GROUP).stamp
	$(SNAKEMAKE) $(ARGS) --config mode=quick

# Kernels run on the CPU and in Triton's interpreter, on torch's tensors.
smoke: $(VENV)/gpu.stamp
	$(SNAKEMAKE) smoke $(ARGS)

# One page: every figure with its caption, the verdicts, the workflow that made them.
report: $(VENV)/$(GROUP).stamp
	$(SNAKEMAKE) report $(ARGS)

# Those parts of README.md, ARTIFACT.md and docs/ that hold what was measured.
docs: $(VENV)/base.stamp
	$(BIN)/python -m workflow.documents

# What compiling gives, kept by content so that nobody waits for it: after an edit of a kernel.
resources: $(VENV)/base.stamp
	for arch in sm_80 sm_90 sm_100; do \
	$(BIN)/python -m kernels.build --arch $$arch --out results/build/$$arch && \
	cp results/build/$$arch/resources.csv kernels/resources/$$arch.csv || exit 1; done

# Asked first: the figures take minutes.
release: $(VENV)/$(GROUP).stamp
	@$(BIN)/python -m workflow.release --check
	$(SNAKEMAKE) --config source=archive
	$(BIN)/python -m workflow.release

# pytest comes last, and its summary ends the output.
test: browser lint
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --durations 20

# The blog post's tests open it in a Chromium; pip has none that would run everywhere.
browser:
	@for name in "$$CHROMIUM" chromium chromium-browser google-chrome; do \
		test -n "$$name" && command -v "$$name" > /dev/null && exit 0; done; \
	echo "installing chromium (apt-get), which the blog post's tests drive"; \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
		> /dev/null || { echo "the blog post's tests need a Chromium, and apt-get cannot install" \
		"one here: install chromium, or name one: CHROMIUM=/path make test" >&2; exit 1; }

lint: $(VENV)/test.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint
	$(BIN)/clang-format --dry-run -Werror $(CUDA_FILES)

# The archive is an input under experiments/ and stays.
clean:
	@echo "removing results/, with what was measured here, and .snakemake/"
	rm -rf results .snakemake
	rm -f $(VENV)/*.stamp

distclean: clean
	rm -rf $(VENV)

# Every other name is the workflow's, or nobody's; these two are folders as well.
figures paper: $(VENV)/$(GROUP).stamp
	$(SNAKEMAKE) $@ $(ARGS)

.DEFAULT:
	@$(MAKE) --no-print-directory $(VENV)/$(GROUP).stamp
	$(SNAKEMAKE) $@ $(ARGS)

help:
	@echo "make doctor   what will and will not run on this machine, before anything is installed"
	@echo "make          set up $(VENV), measure on this machine's GPU or take the archive, draw"
	@echo "make quick    the same in a reviewer's five minutes on an H200"
	@echo "make smoke    tiny shapes without a GPU: does the path work here?"
	@echo "make report   one page with every figure, its caption, and the verdicts"
	@echo "make docs     write the tables of README.md, ARTIFACT.md and docs/ anew"
	@echo "make resources  compile all kernels, and keep what they use in kernels/resources/"
	@echo "make release  a tar.xz of a clean commit, what the archive draws, checksums and metadata"
	@echo "make test     set up, linters, all tests"
	@echo "make clean    remove results/, with what was measured here"
	@echo "make distclean  the same, and $(VENV)"
	@echo "make NAME     a target of the workflow, such as vocab_scaling, figures or claims"
	@echo "PYTHON=$(PYTHON)   3.11 or 3.12, makes $(VENV)"
	@echo "CORES=$(CORES)          handed to snakemake"
	@echo "ARGS=...         handed to snakemake: make ARGS=\"--config source=archive\""

$(VENV)/%.stamp: pyproject.toml constraints.txt | $(VENV)/venv.stamp
	@echo "installing group $* into $(VENV) (2 GB; 6 GB with the CUDA build of torch)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt \
		--build-constraint constraints.txt --group $*
	touch $(INCLUDED_$*:%=$(VENV)/%.stamp)

$(VENV)/venv.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or later is needed, and '$(PYTHON)' is not one:" \
			"name one, as in: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@
