evil=testdata/../../shared/oracle/checkpoints/evil
[ -n "${MEG_SHARED:-}" ] && evil=$MEG_SHARED/oracle/checkpoints/evil
if [ ! -e "$evil" ]; then
  echo "not found: $evil (set MEG_SHARED to the folder with the oracle)" >&2
  exit 77
fi
cp "$evil/evil_os_system_with_tensor.pt" "$evil/evil_getattr_chain.pt" "$evil/bad_cycle_list_tensor.pt" .
checkpoint_inspect evil_os_system_with_tensor.pt --stats
checkpoint_inspect evil_getattr_chain.pt
checkpoint_inspect bad_cycle_list_tensor.pt --tensors
ls
