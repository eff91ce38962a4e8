mkdir parts
for name in a_text_document b_text_document a_title_document; do
  cp testdata/golden/datasets/mm_int32.bin "parts/$name.bin"
  cp testdata/golden/datasets/mm_int32.idx "parts/$name.idx"
done
merge_datasets --input parts --key text --output-prefix out | grep datasets
merge_datasets --input parts --key body --output-prefix none
