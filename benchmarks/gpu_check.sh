#!/usr/bin/env bash
# The measurements and tests that need a GPU, in about six minutes:
#
#   benchmarks/gpu_check.sh         needs CuPy for its CUDA, tinyattn[test], PyTorch and pytest-xdist
#                                   (without xdist, compiling alone takes two minutes)
#   benchmarks/gpu_check.sh --dry   the same with a small model on the CPU, to see that it runs
#
# Figures go to benchmarks/results/, to a page named after the card; it replaces an earlier one. After
# a part that fails the others still run; the script then ends with status 1. Environment variables:
#
#   A5_DATA=FOLDER    the folder of the assignment's files; a model is trained on them in the time
#                     that is left, and evaluated
#   A5_TRAIN=OPTIONS  options of pretrain; by default --recipe a5-hour
#   GPU_SECONDS=N     the time limit in seconds; by default 350
set -uo pipefail
cd "$(dirname "$0")/.."
limit=${GPU_SECONDS:-350}
read -ra train <<<"${A5_TRAIN:---recipe a5-hour}"
results=benchmarks/results
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

part() { # NAME COMMAND...
    echo "== $1"
    "${@:2}" || { failed=1; echo "failed: ${*:2}"; }
}
figures() { # COMMAND...: what it prints goes to the page as well
    "$@" | tee -a "$page"
}
left() { # SECONDS: the time left, without these seconds; at least 20
    echo $((limit - SECONDS - $1 > 20 ? limit - SECONDS - $1 : 20))
}
until_late() { # COMMAND...: Ctrl-C ends it when the later parts need the time; not a failure
    timeout --foreground -k 10 -s INT "$(left 90)" "$@"
    local status=$?
    [ $status = 124 ] || return $status
}

if [ "${1:-}" = --dry ]; then
    export TINYATTN_CUDA_ON_CPU=1
    tinyattn=(python -c "import sys; sys.path.insert(0, 'tests')
import cuda_on_cpu; cuda_on_cpu.start()
from tinyattn.cli import main; main()")
    tests=(python tests/cuda_on_cpu -q tests/cuda)
    few=(--dry --rounds 2 --turn 1) claims=(--sheet new)
    page=$work/page.md # its times mean nothing
    python -m tinyattn world --people 30 --places 5 --dev 9 --test 9 --out "$work/world"
    ln -s corpus.txt "$work/world/wiki.txt"
    ln -s birth_train.tsv "$work/world/birth_places_train.tsv"
    A5_DATA=$work/world
    train=(--recipe world --steps 3 --set model.layers=2 --set model.width=32)
else
    tinyattn=(python -m tinyattn)
    tests=(timeout $((limit / 2)) pytest -q -m gpu)
    python -c "import xdist" 2>/dev/null && tests+=(-n 8)
    few=() claims=()
    card=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1 | tr -cs '[:alnum:]\n' -)
    mkdir -p $results
    page=$results/$card.md
    : >"$page"
fi

part "steps" figures timeout $((limit / 3)) python benchmarks/gpu.py "${few[@]}"
part "tests" "${tests[@]}"
if [ -n "${A5_DATA:-}" ]; then
    echo -e "\ntinyattn pretrain wiki.txt ${train[*]} --device cuda; finetune; evaluate\n" >>"$page"
    part "pretrain" until_late "${tinyattn[@]}" pretrain "$A5_DATA/wiki.txt" "${train[@]}" \
        --device cuda --out "$work/pretrained"
    part "by minute" figures python benchmarks/by_minute.py "$work/pretrained" --every 0.25
    part "finetune" timeout "$(left 50)" "${tinyattn[@]}" finetune "$A5_DATA/birth_places_train.tsv" \
        --from "$work/pretrained" --device cuda --out "$work/finetuned"
    part "evaluate" figures timeout "$(left 30)" "${tinyattn[@]}" evaluate "$A5_DATA/birth_dev.tsv" \
        --from "$work/finetuned" --device cuda
fi
part "claims" timeout "$(left 0)" "${tinyattn[@]}" claims --device cuda "${claims[@]}"
exit $failed
