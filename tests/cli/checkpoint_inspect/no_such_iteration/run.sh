checkpoint_inspect testdata/checkpoint --iteration 7
