#!/usr/bin/env python3
"""pack_dataset's tokens and masks against transformers', its files against megatron-core and pyarrow.

pack_dataset_test.py BIN TESTDATA/tokenizer [unittest arguments]
The tests are in pack_dataset/, in one process: what they compare with takes seconds to import.
"""
import sys
import unittest

try:
    from pack_dataset import pack_case
    from pack_dataset.pack_bins import Bins
    from pack_dataset.pack_endings import Endings
    from pack_dataset.pack_lines import Lines
    from pack_dataset.pack_masks import Masks
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

if __name__ == "__main__":
    pack_case.BIN, pack_case.TOKENIZER = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
