verify testdata/golden/datasets/uint16
echo "exit $?"
verify testdata/golden/datasets/uint16.idx --json
echo "exit $?"
verify testdata/checkpoint
echo "exit $?"
verify testdata/checkpoint/iter_0000100/mp_rank_00_000/model_optim_rng.pt
