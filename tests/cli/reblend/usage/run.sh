# Command lines that are refused, each with one line.
data=testdata/golden/datasets
flags="--data-path 1 $data/mm_int32 1 $data/uint16 --split 1,0,0 --seq-length 8 --samples 16,0,0 --tokenizer-type NullTokenizer --vocab-size 1000"
for more in "" "--consumed-samples 8" "--consumed-samples 8 --new-blend 1" "--consumed-samples 17 --new-blend 1 $data/uint16 --dry-run" \
  "--consumed-samples 8 --new-blend 1 $data/uint16 --exclude-documents $data/uint16=9999 --new-data-cache-path x" \
  "--consumed-samples 8 --new-blend 1 $data/uint16 --dry-run --megatron-version v2.6"; do
  reblend $more $flags; echo "exit $?"
done
ls -d x* 2>/dev/null || echo nothing is written
