for path in testdata/checkpoint testdata/checkpoint/iter_0000100/mp_rank_00_000/model_optim_rng.pt; do
  dataset_inspect $path
  echo "exit $?"
done
dataset_inspect testdata
