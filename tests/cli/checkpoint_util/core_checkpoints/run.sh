# To layouts that megatron-core did not save, as rank files and as torch_dist: the state stays core's.
for run in tp2pp2 pp2_vpp2 distopt_tp2_dp2; do
  checkpoint_util --load-dir testdata/megatron_core/$run/ranks --save-dir $run-ranks \
      --target-tensor-parallel-size 4 --target-pipeline-parallel-size 2 | sed -n '1,2p'
  verify checkpoint $run-ranks
  verify diff testdata/megatron_core/$run/whole $run-ranks
  checkpoint_util --load-dir testdata/megatron_core/$run/ranks --save-dir $run-dist \
      --target-format torch_dist | sed -n '1,2p'
  verify diff testdata/megatron_core/$run/whole $run-dist
done
