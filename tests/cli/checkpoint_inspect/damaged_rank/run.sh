cp -rL testdata/checkpoint copy
chmod -R u+w copy
truncate -s 20000 copy/iter_0000100/mp_rank_00_000/model_optim_rng.pt
checkpoint_inspect copy
