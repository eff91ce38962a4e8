checkpoint_inspect testdata/checkpoint/iter_0000100/mp_rank_01_001/model_optim_rng.pt |
  grep -v '^      ' # the upper levels of the tree
