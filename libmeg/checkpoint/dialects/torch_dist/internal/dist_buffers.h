#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_model.h"

namespace meg::checkpoint {

/// The flat buffers in which a distributed optimizer keeps the state of one model-parallel rank:
/// all parameters one after another in reverse order, cut into buckets. They are saved as tensors a
/// bucket (dp_reshardable) or in one object (dp_zero_gather_scatter); names of parameters are in
/// neither.
class DistBuffers {
 public:
  /// rank: pipeline rank * tensor-parallel size + tensor rank. kNotFound where the folder has none
  /// for it; kUnsupported, by name: several buffers, other forms. The folder outlives the result.
  static Result<DistBuffers> open(const DistFolder& folder, int64_t rank);

  /// The state of parameters of so many elements, which are in the order of named_parameters(): for
  /// every kind ("param", "exp_avg") a source each. kUnsupported where the buckets are not as long
  /// as these parameters make them.
  Result<std::map<std::string, std::vector<std::shared_ptr<const TensorSource>>>> cut(
      const std::vector<int64_t>& elements) const;

 private:
  struct Bucket {
    int64_t elements = 0;  ///< Without the padding at its end.
    std::map<std::string, std::shared_ptr<const TensorSource>> kinds;
  };

  /// Where a parameter lies.
  struct Place {
    size_t bucket = 0;
    int64_t first = 0;
  };

  DistBuffers(const DistFolder& folder, std::string prefix)
      : folder_(&folder), prefix_(std::move(prefix)) {}

  Status read_tensors();
  Status read_lengths();
  Status read_object(const DistObject& object);
  Status add_object_tensors(const TorchFileParts& parts, PickleId dict, const DistObject& object);
  bool place(const std::vector<int64_t>& elements, int64_t alignment,
             std::vector<Place>* places) const;
  Status unsupported(std::string_view what) const;

  const DistFolder* folder_;
  std::string prefix_;  // of names of this rank's tensors and objects
  std::vector<Bucket> buckets_;
};

}  // namespace meg::checkpoint
