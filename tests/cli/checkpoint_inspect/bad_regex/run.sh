checkpoint_inspect testdata/checkpoint --name '('
