#!/bin/sh
# Runs a program of libmeg on the ranks of several machines; to be started on each of them, with the same words:
#   NODES=3 RANKS=4 HEAD=node0:29400 scripts/launch/several_machines.sh pretrain_gpt ...
# RANKS: of one machine. HEAD: the machine that the others meet at, and a free port there. Which network interface
# Gloo uses says GLOO_SOCKET_IFNAME, where a machine has several.
set -eu
exec torchrun --nnodes "${NODES:?machines}" --nproc-per-node "${RANKS:?ranks of a machine}" \
    --rdzv-backend c10d --rdzv-endpoint "${HEAD:?host:port that all machines reach}" \
    --rdzv-id "${RUN_ID:-libmeg}" --max-restarts "${RESTARTS:-0}" --no-python "$@"
