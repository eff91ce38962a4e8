checkpoint_inspect testdata/checkpoint/iter_0000100 --iteration 100 --args
