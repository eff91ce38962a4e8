# Once a dataset was trained on, its index caches are in a folder of its name.
cp testdata/golden/datasets/mm_int32.bin a.bin
cp testdata/golden/datasets/mm_int32.idx a.idx
mkdir -p a/cache/GPTDataset_indices
merge_datasets a --output-prefix joined | grep -v seconds
# With datasets in it, the folder may have been meant.
cp a.bin a/b.bin
cp a.idx a/b.idx
merge_datasets a --output-prefix joined | grep -v seconds
rm -r a/cache
merge_datasets --input a/ a --output-prefix both | grep datasets
