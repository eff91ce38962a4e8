checkpoint_inspect testdata/checkpoint --stats --name 'final_layernorm|position_embeddings'
