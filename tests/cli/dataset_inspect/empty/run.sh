dataset_inspect testdata/golden/datasets/empty
