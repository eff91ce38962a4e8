report_theoretical_memory --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 \
  --padded-vocab-size 32000 --sequence-parallel --recompute-activations --ffn-hidden-size 11008 --swiglu \
  --group-query-attention --num-query-groups 8 --untie-embeddings-and-output-weights \
  --tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 \
  --microbatch-group-size-per-virtual-pipeline-stage 6 --use-distributed-optimizer --data-parallel-size 8 --lr 1e-4 --bf16
