# The 345M model on four tensor-parallel ranks, of 50257 tokens.
report_theoretical_memory --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
  --seq-length 1024 --vocab-size 50257 --tensor-model-parallel-size 4
