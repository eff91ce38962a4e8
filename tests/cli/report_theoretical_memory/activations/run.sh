# The activations of the DeepSpeed tutorial: 34 b s h + 5 b s^2 a in each layer.
report_theoretical_memory --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
  --max-position-embeddings 1024 --micro-batch-size 8 --padded-vocab-size 50304 | grep '^Activation'
