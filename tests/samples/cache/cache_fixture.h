#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/io/md5.h"
#include "libmeg/samples/cache/gpt_index_cache.h"
#include "tests/temp_folder.h"

namespace meg::test {

/// Writes a dataset of uint16 with one sequence a document; every item is 0.
inline void write_dataset(const std::string& prefix, const std::vector<int32_t>& lengths) {
  auto builder = dataset::IndexedDatasetBuilder::create(prefix, {.dtype = DType::kUint16});
  ASSERT_TRUE(builder.has_value()) << builder.error().message();
  for (const int32_t length : lengths) {
    const std::vector<uint16_t> items(static_cast<size_t>(length));
    ASSERT_TRUE(builder->add_item(std::as_bytes(std::span(items))).ok());
    ASSERT_TRUE(builder->end_document().ok());
  }
  ASSERT_TRUE(builder->finish().ok());
}

/// The files of a cache in a folder, named as Megatron core 0.7 and later names them.
inline samples::GptIndexCacheFiles core_files(const std::string& folder, const std::string& md5) {
  const std::string start = folder + "/" + md5 + "-GPTDataset-train-";
  return {.description = start + "description.txt",
          .indices = {.document_index = start + "document_index.npy",
                      .sample_index = start + "sample_index.npy",
                      .shuffle_index = start + "shuffle_index.npy"},
          .sidecar = folder + "/" + md5 + "-libmeg.json"};
}

/// A small dataset of two epochs and a cache folder.
class CacheTest : public testing::Test {
 protected:
  static constexpr int64_t kSequences = 200;

  void SetUp() override {
    write_dataset(prefix_, lengths());
    open_dataset();
    request_.range = {.begin = 10, .end = 190};
    request_.seed = 1234;
    request_.description = "a description";
    request_.samples = 150;
    request_.sequence_length = 32;
    request_.places = {core_files(cache_, io::md5_hex(request_.description))};
  }

  /// Returns from 0 to 40 tokens a sequence, some 3,600 in the range.
  static std::vector<int32_t> lengths() {
    std::vector<int32_t> lengths;
    for (int64_t i = 0; i < kSequences; ++i) {
      lengths.push_back(static_cast<int32_t>((i * 7919) % 41));
    }
    return lengths;
  }

  void open_dataset() {
    auto dataset = dataset::IndexedDataset::open(prefix_);
    ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
    dataset_ = std::move(*dataset);
    request_.dataset = &dataset_;
  }

  Result<samples::GptIndexCache> open_cache() const {
    return samples::open_gpt_index_cache(request_, megatron::newest_megatron_version());
  }

  /// Opens the cache; the outcome must be this one. Returns the reason.
  std::string expect_outcome(samples::CacheOutcome outcome) const {
    const auto cache = open_cache();
    EXPECT_TRUE(cache.has_value()) << cache.error().message();
    if (!cache.has_value()) return {};
    EXPECT_EQ(static_cast<int>(cache->outcome), static_cast<int>(outcome)) << cache->reason;
    EXPECT_EQ(cache->reason.empty(), outcome != samples::CacheOutcome::kRebuilt) << cache->reason;
    EXPECT_EQ(cache->reason.find('\n'), std::string::npos) << cache->reason;
    return cache->reason;
  }

  const samples::GptIndexCacheFiles& files() const { return request_.places.back(); }

  /// The files that Megatron has too.
  std::vector<std::string> parts() const {
    return {files().indices.document_index, files().indices.sample_index,
            files().indices.shuffle_index, files().description};
  }

  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> contents;
    if (!std::filesystem::exists(cache_)) return contents;
    for (const auto& entry : std::filesystem::directory_iterator(cache_)) {
      contents[entry.path().filename().string()] = read_file(entry.path().string());
    }
    return contents;
  }

  TempFolder folder_;
  std::string prefix_ = folder_.path("set");
  std::string cache_ = folder_.path("cache");
  dataset::IndexedDataset dataset_;
  samples::GptIndexCacheRequest request_;
};

}  // namespace meg::test
