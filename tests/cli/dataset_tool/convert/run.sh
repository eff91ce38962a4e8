dataset_tool convert testdata/golden/datasets/fairseq --dataset-impl mmap --output-prefix new | grep -v seconds &&
  verify dataset new
dataset_tool convert testdata/golden/datasets/uint16 --dataset-impl lazy --output-prefix old
dataset_tool convert testdata/golden/datasets/uint16 --dtype uint8 --output-prefix small
ls
dataset_tool convert testdata/golden/datasets/shapes --dataset-impl mmap --output-prefix flat | grep -v seconds
for end in bin idx; do cmp flat.$end testdata/golden/datasets/shapes_mmap.$end && echo "$end as v2.6 writes it"; done
dataset_tool convert testdata/golden/datasets/shapes --dtype int64 --output-prefix wide
dataset_inspect testdata/golden/datasets/shapes --document 3
dataset_tool slice testdata/golden/datasets/shapes --output-prefix view
