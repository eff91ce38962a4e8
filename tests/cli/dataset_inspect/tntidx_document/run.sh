dataset_inspect testdata/golden/datasets/fairseq --document 1
