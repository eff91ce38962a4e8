#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "tests/temp_folder.h"

namespace meg::test {

/// A folder of testdata/megatron_core; each holds iteration 2 of a small GPT.
std::string core_checkpoint(const std::string& name);

checkpoint::MegatronCheckpoint open_whole(const std::string& path);

/// A copy of such a folder in which a test breaks one thing.
class DamagedCopy {
 public:
  explicit DamagedCopy(const std::string& name = "tp2pp2/ranks");

  std::string root() const { return folder_.path("copy"); }

  std::string iteration() const { return root() + "/iter_0000002"; }

  std::string file(const std::string& rank) const {
    return iteration() + "/" + rank + "/model_optim_rng.pt";
  }

  /// Overwrites an element of a tensor in a rank's file: a path of keys such as
  /// "model/output_layer.weight". The CRC-32 of the file stays that of the old bytes.
  void set_element(const std::string& rank, const std::string& tensor, int64_t element,
                   float value);

 private:
  TempFolder folder_;
};

}  // namespace meg::test
