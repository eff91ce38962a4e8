cp testdata/golden/datasets/uint16.{bin,idx} .
dataset_tool exclude uint16 --documents 1,3:5 --output-prefix some | grep -v seconds &&
  dataset_tool shuffle some --seed 3 --copy --output-prefix mixed | grep -v seconds && verify dataset mixed && ls
