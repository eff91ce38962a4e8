merge_datasets a --input b --output-prefix out
