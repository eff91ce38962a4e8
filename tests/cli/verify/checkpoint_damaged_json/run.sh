cp -rL testdata/checkpoint checkpoint
chmod -R u+w checkpoint
rm checkpoint/iter_0000100/mp_rank_01_001/model_optim_rng.pt
verify checkpoint checkpoint --json
