dataset_inspect testdata/golden/datasets/mm_int32 --sequence=2 --json
