# Another mixture after eight samples: what each dataset has given, what remains, and caches that prepare_cache finds.
data=testdata/golden/datasets
flags="--split 1,0,0 --seq-length 8 --tokenizer-type NullTokenizer --vocab-size 1000 --megatron-version core_v0.16.1"
run() { reblend --consumed-samples 8 --new-blend 3 $data/mm_int32 1 $data/uint16 --samples 16,0,0 --data-path 1 $data/mm_int32 1 $data/uint16 $flags "$@"; }
run --dry-run
run --new-data-cache-path cache | tee out | tail -n 3
prepare_cache $(tail -n 1 out) --samples 16,0,0 $flags | grep -c ': found,'
prepare_cache $(tail -n 1 out) --samples 24,0,0 $flags; echo "exit $?"
