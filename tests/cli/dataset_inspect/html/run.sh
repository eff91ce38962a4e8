dataset_inspect testdata/golden/datasets/uint16 --html page.html
