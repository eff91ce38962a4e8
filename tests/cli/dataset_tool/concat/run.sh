cp testdata/golden/datasets/uint16.{bin,idx} . && cp uint16.bin other.bin && cp uint16.idx other.idx
dataset_tool slice uint16 --documents 2:5 --output-prefix some >/dev/null
dataset_tool concat uint16 some some --output-prefix more | grep -v seconds && verify dataset more
dataset_tool concat some other --output-prefix both | grep -v seconds && verify dataset both
dataset_tool concat uint16 testdata/golden/datasets/fairseq --output-prefix mixed
dataset_tool concat uint16 some --output-prefix some
ls
