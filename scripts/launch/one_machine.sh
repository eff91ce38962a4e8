#!/bin/sh
# Runs a program of libmeg on several ranks of this machine:
#   RANKS=4 scripts/launch/one_machine.sh pretrain_gpt --tensor-model-parallel-size 2 ...
# If a rank fails, a run that loads and saves the same folder continues from its last checkpoint, at
# most RESTARTS times.
set -eu
exec torchrun --standalone --nproc-per-node "${RANKS:?ranks to start}" \
    --max-restarts "${RESTARTS:-0}" --no-python "$@"
