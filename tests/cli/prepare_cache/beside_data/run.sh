mkdir data && cp testdata/golden/datasets/mm_int32.bin testdata/golden/datasets/mm_int32.idx data
for revision in v2.6 6ef5bdc core_v0.4.0 core_v0.9.0; do
  prepare_cache --data-path data/mm_int32 --split 1,0,0 --seq-length 8 --samples 20,0,0 \
    --megatron-version $revision --vocab-file vocab.json --merge-file merges.txt >/dev/null 2>&1 ||
    exit 9
done
find data -type f | LC_ALL=C sort
