# Each run of megatron-core, then beside the same state on one rank.
for run in tp2pp2 pp2_vpp2 distopt_tp2_dp2; do
  verify checkpoint testdata/megatron_core/$run/ranks
  verify diff testdata/megatron_core/$run/ranks testdata/megatron_core/$run/whole
done
