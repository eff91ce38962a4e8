verify datasets testdata/golden/datasets/uint16
