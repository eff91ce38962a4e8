mkdir parts
for part in b:mm_int32 a:mm_int32; do
  cp "testdata/golden/datasets/${part#*:}.bin" "parts/${part%:*}.bin"
  cp "testdata/golden/datasets/${part#*:}.idx" "parts/${part%:*}.idx"
done
merge_datasets --input parts --output-prefix both --multimodal | grep -v seconds &&
  od -An -tx1 -N64 both.idx && ls
