dataset_inspect testdata/golden/datasets/mm_int32 --json
