# The command line of a training of Llama 3 8B: what memory does not depend on is taken with a note.
report_theoretical_memory --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \
  --num-attention-heads 32 --group-query-attention --num-query-groups 8 --kv-channels 128 \
  --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope \
  --rotary-base 500000 --rotary-percent 1.0 --use-rope-scaling --rope-scaling-factor 8 \
  --normalization RMSNorm --norm-epsilon 1e-5 --swiglu --disable-bias-linear \
  --untie-embeddings-and-output-weights --attention-dropout 0.0 --hidden-dropout 0.0 \
  --micro-batch-size 1 --global-batch-size 128 --train-iters 1000 --lr 3e-4 --bf16 \
  --padded-vocab-size 128256 --tensor-model-parallel-size 2 --sequence-parallel \
  --use-distributed-optimizer --overlap-grad-reduce --ddp-bucket-size 40000000 \
  --use-tp-pp-dp-mapping --attention-backend fused --data-parallel-size 4
