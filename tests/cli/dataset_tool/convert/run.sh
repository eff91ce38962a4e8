dataset_tool convert testdata/golden/datasets/fairseq --dataset-impl mmap --output-prefix new | grep -v seconds &&
  verify dataset new
dataset_tool convert testdata/golden/datasets/uint16 --dataset-impl lazy --output-prefix old
dataset_tool convert testdata/golden/datasets/uint16 --dtype uint8 --output-prefix small
ls
