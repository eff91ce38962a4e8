checkpoint_inspect testdata/checkpoint --name 'layers\.0\..*layernorm'
