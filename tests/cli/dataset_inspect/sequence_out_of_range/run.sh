dataset_inspect testdata/golden/datasets/uint16 --sequence -1
