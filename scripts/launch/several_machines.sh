#!/bin/sh
# Runs a program of libmeg on the ranks of several machines. Start it on each of them, with the same command line:
#   NODES=3 RANKS=4 HEAD=node0:29400 scripts/launch/several_machines.sh pretrain_gpt ...
# RANKS: number of ranks per machine. HEAD: the machine of rank 0, and a free port there. If a machine has several
# network interfaces, set GLOO_SOCKET_IFNAME to the one that Gloo should use.
set -eu
exec torchrun --nnodes "${NODES:?machines}" --nproc-per-node "${RANKS:?ranks of a machine}" \
    --rdzv-backend c10d --rdzv-endpoint "${HEAD:?host:port that all machines reach}" \
    --rdzv-id "${RUN_ID:-libmeg}" --max-restarts "${RESTARTS:-0}" --no-python "$@"
