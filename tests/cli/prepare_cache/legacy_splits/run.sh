# At 6ef5bdc the description names --split also where each split has datasets of its own; None without.
mkdir data && cp testdata/golden/datasets/mm_int32.bin testdata/golden/datasets/mm_int32.idx data
for split in "969, 30, 1" ""; do
  prepare_cache --train-data-path data/mm_int32 --seq-length 8 --samples 20,0,0 ${split:+--split "$split"} \
    --megatron-version 6ef5bdc >/dev/null
  cat data/index-cache/*.dsc
  rm -r data/index-cache
done
