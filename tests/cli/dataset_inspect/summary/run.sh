dataset_inspect testdata/golden/datasets/append_eod.idx
