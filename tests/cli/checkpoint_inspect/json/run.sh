checkpoint_inspect testdata/checkpoint --json --tensors --stats --name 'final_layernorm.bias'
