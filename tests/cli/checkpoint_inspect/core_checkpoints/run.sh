for run in tp2pp2 pp2_vpp2 distopt_tp2_dp2; do
  checkpoint_inspect testdata/megatron_core/$run/ranks
done
