report_theoretical_memory --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 \
  --vocab-size 100 --tensor-model-parallel-size 3
