# 12 layers: 2121.85 MB are 2224917504 bytes.
report_theoretical_memory --num-layers=12 --hidden_size 768 --num-attention-heads 12 --seq-length 512 \
  --padded-vocab-size 50304 --json
