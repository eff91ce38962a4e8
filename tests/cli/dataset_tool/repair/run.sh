dataset_tool repair testdata/golden/datasets/append_eod_6ef5bdc --copy --output-prefix mended | grep -v seconds &&
  verify dataset mended && cmp mended.bin testdata/golden/datasets/append_eod_6ef5bdc.bin
cp testdata/golden/datasets/uint16.bin cut.bin && head -c 250 testdata/golden/datasets/uint16.idx > cut.idx
dataset_tool repair cut --output-prefix whole | grep -v seconds && verify dataset whole
dataset_tool repair testdata/golden/datasets/uint16 --output-prefix none | grep -v seconds && ls
