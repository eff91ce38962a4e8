#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/samples/cache/gpt_index_cache.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// The file names of index caches at every revision.

/// The places in which the indices of a split of the dataset `prefix` are searched, in order; a
/// missing cache is built in the last one. description: from gpt_description().
std::vector<GptIndexCacheFiles> gpt_index_cache_places(const std::string& prefix, Split split,
                                                       const std::string& description,
                                                       const std::optional<std::string>& cache_path,
                                                       const megatron::MegatronVersion& version);

/// v2.x names its files by these instead of a description.
struct BesideDataName {
  int64_t samples = 0;
  int64_t sequence_length = 0;  ///< tokens
  uint32_t seed = 0;
};

/// The one place of v2.x: beside the data.
GptIndexCacheFiles beside_data_files(const std::string& prefix, Split split,
                                     const BesideDataName& name);

/// The files of a blend's indices.
struct BlendIndexFiles {
  std::string description;
  std::string dataset_index;
  std::string sample_index;

  std::vector<std::string> parts() const { return {description, dataset_index, sample_index}; }
};

/// nullopt if blends are not cached: without a cache path, and at v2.x.
std::optional<BlendIndexFiles> blend_index_files(Split split, const std::string& description,
                                                 const std::optional<std::string>& cache_path,
                                                 const megatron::MegatronVersion& version);

/// Stands in a folder of caches that reblend() has made, and that no flags give again.
inline constexpr const char* kReblendRecord = "reblend.json";

/// kNotFound where `file` would be built in such a folder.
Status check_may_build(const std::string& file);

}  // namespace meg::samples
