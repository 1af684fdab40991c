#!/usr/bin/env bash
# What only a GPU can answer, in under six minutes:
#
#   benchmarks/gpu_check.sh         with CuPy for its CUDA, tinyattn[test] and PyTorch installed
#   benchmarks/gpu_check.sh --dry   the same on the CPU, in small, to see that it runs
#
# Figures go to benchmarks/results/, named by the card. A part that fails does not stop the others;
# the script then ends with status 1. With A5_DATA=FOLDER, which has the assignment's files, the
# recipe a5 is trained and asked too, as many steps as A5_STEPS says.
set -uo pipefail
cd "$(dirname "$0")/.."
dry=${1:-}
failed=0
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
results=benchmarks/results
mkdir -p "$results"

part() {
    echo "== $1"
    shift
    "$@" || { failed=1; echo "failed: $*"; }
}

if [ "$dry" = --dry ]; then
    export TINYATTN_CUDA_ON_CPU=1 file=$results/dry.md
    part "tests" python tests/cuda_on_cpu -q tests/cuda
    part "steps" bash -c 'python benchmarks/gpu.py --dry --rounds 2 --turn 1 | tee "$file"'
    rm -f "$file" # its times mean nothing
    rmdir --ignore-fail-on-non-empty "$results"
    exit $failed
fi

card=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1 | tr ' /' '--' | tr -s -)
export file=$results/$card.md
part "tests" timeout 150 pytest -q -m gpu
part "steps" bash -c 'timeout 120 python benchmarks/gpu.py | tee "$file"'
if [ -n "${A5_DATA:-}" ]; then
    runs=$(mktemp -d)
    steps=${A5_STEPS:-4000}
    part "a5, $steps steps" timeout 300 python -m tinyattn pretrain "$A5_DATA/wiki.txt" \
        --recipe a5 --device cuda --steps "$steps" --out "$runs/a5"
    part "finetune" python -m tinyattn finetune "$A5_DATA/birth_places_train.tsv" \
        --from "$runs/a5" --device cuda --out "$runs/a5-tuned"
    part "evaluate" bash -c "python -m tinyattn evaluate '$A5_DATA/birth_dev.tsv' \
        --from '$runs/a5-tuned' --device cuda | tee -a '$file'"
fi
exit $failed
