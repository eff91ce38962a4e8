verify checkpoint testdata/checkpoint
verify checkpoint testdata/checkpoint/iter_0000100/mp_rank_00_000/model_optim_rng.pt
echo "exit $?"
