merge_datasets testdata/golden/datasets/fairseq testdata/golden/datasets/fairseq --output-prefix both | grep -v seconds &&
  verify dataset both && ls
merge_datasets testdata/golden/datasets/fairseq testdata/golden/datasets/mm_int32 --output-prefix mixed
