#include "libmeg/samples/cache/internal/cache_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "libmeg/io/md5.h"

// Every name below is one that some revision of Megatron looks for, so that each finds what libmeg
// has built and the other way round. Only the sidecar's is libmeg's own; it begins as the cache's
// other names do, so that it is moved and removed with them.

namespace meg::samples {
namespace {

/// Like Python's os.path.join.
std::string joined(const std::string& folder, const std::string& name) {
  if (folder.empty() || folder.ends_with('/')) return folder + name;
  return folder + "/" + name;
}

/// Like Python's os.path.dirname.
std::string folder_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

GptIndexCacheFiles legacy_files(const std::string& folder, const std::string& md5) {
  const std::string stem = joined(folder, md5);
  return {.description = stem + ".dsc",
          .indices = {.document_index = stem + "_doc_idx.npy",
                      .sample_index = stem + "_sample_idx.npy",
                      .shuffle_index = stem + "_shuffle_idx.npy"},
          .sidecar = stem + "-libmeg.json"};
}

GptIndexCacheFiles core_files(const std::string& folder, const std::string& md5, Split split,
                              const megatron::MegatronVersion& version) {
  const std::string part =
      version.split_in_cache_name ? fmt::format("-{}", split_name(split)) : std::string();
  const std::string stem = joined(folder, fmt::format("{}-GPTDataset{}-", md5, part));
  return {.description = stem + "description.txt",
          .indices = {.document_index = stem + "document_index.npy",
                      .sample_index = stem + "sample_index.npy",
                      .shuffle_index = stem + "shuffle_index.npy"},
          .sidecar = joined(folder, md5 + "-libmeg.json")};
}

}  // namespace

std::vector<GptIndexCacheFiles> gpt_index_cache_places(const std::string& prefix, Split split,
                                                       const std::string& description,
                                                       const std::optional<std::string>& cache_path,
                                                       const megatron::MegatronVersion& version) {
  const std::string md5 = io::md5_hex(description);
  if (version.index_cache_form == megatron::IndexCacheForm::kLegacy) {
    // 6ef5bdc looks beside the data first, also with --data-cache-path, and builds in the last
    // place.
    std::vector places = {legacy_files(joined(folder_of(prefix), "index-cache"), md5)};
    if (cache_path.has_value()) places.push_back(legacy_files(*cache_path, md5));
    return places;
  }
  const std::string own = joined(joined(prefix, "cache"), "GPTDataset_indices");
  return {core_files(cache_path.value_or(own), md5, split, version)};
}

GptIndexCacheFiles beside_data_files(const std::string& prefix, Split split,
                                     const BesideDataName& name) {
  const std::string stem = fmt::format("{}_{}_indexmap_{}ns_{}sl_{}s_", prefix, split_name(split),
                                       name.samples, name.sequence_length, name.seed);
  return {.description = {},
          .indices = {.document_index = stem + "doc_idx.npy",
                      .sample_index = stem + "sample_idx.npy",
                      .shuffle_index = stem + "shuffle_idx.npy"},
          .sidecar = stem + "libmeg.json"};
}

std::optional<BlendIndexFiles> blend_index_files(Split split, const std::string& description,
                                                 const std::optional<std::string>& cache_path,
                                                 const megatron::MegatronVersion& version) {
  const megatron::IndexCacheForm form = version.index_cache_form;
  if (!cache_path.has_value() || form == megatron::IndexCacheForm::kBesideData) return std::nullopt;
  const std::string md5 = io::md5_hex(description);
  if (form == megatron::IndexCacheForm::kLegacy) {
    const std::string stem = joined(*cache_path, md5);
    return BlendIndexFiles{.description = stem + ".dsc",
                           .dataset_index = stem + "_index.npy",
                           .sample_index = stem + "_sample_index.npy"};
  }
  const std::string part =
      version.split_in_cache_name ? fmt::format("-{}", split_name(split)) : std::string();
  const std::string stem = joined(*cache_path, fmt::format("{}-BlendedDataset{}-", md5, part));
  return BlendIndexFiles{.description = stem + "description.txt",
                         .dataset_index = stem + "dataset_index.npy",
                         .sample_index = stem + "dataset_sample_index.npy"};
}

Status check_may_build(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code absent;
  if (!std::filesystem::exists(folder / kReblendRecord, absent)) return {};
  return make_error(StatusCode::kNotFound,
                    "{}: expected this index cache, as reblend has written the folder: found none "
                    "for these flags",
                    file);
}

}  // namespace meg::samples
