verify dataset testdata/golden/datasets/mm_int32.idx --json
