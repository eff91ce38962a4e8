// Caches that are damaged, mixed up or of other data are built again, with a line that says why.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "libmeg/samples/cache/internal/cached_index.h"
#include "tests/samples/cache/cache_fixture.h"

namespace meg::samples {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class GptIndexCacheDamage : public test::CacheTest {
 protected:
  void SetUp() override {
    CacheTest::SetUp();
    age_idx();
    expect_outcome(CacheOutcome::kBuilt);
    whole_ = contents();
  }

  /// Sidecars then keep its time.
  void age_idx() const {
    fs::last_write_time(prefix_ + ".idx", fs::file_time_type::clock::now() - std::chrono::hours(1));
  }

  /// The cache is rebuilt as it was; returns the reason.
  std::string expect_repaired() {
    const std::string reason = expect_outcome(CacheOutcome::kRebuilt);
    EXPECT_TRUE(contents() == whole_);
    EXPECT_THAT(reason, HasSubstr(": "));
    return reason;
  }

  /// Writes a cache of the same name but other make to a folder.
  GptIndexCacheFiles build_elsewhere(GptIndexCacheRequest request) {
    request.places = {test::core_files(folder_.path("other"), io::md5_hex(request_.description))};
    const auto built = open_gpt_index_cache(request, megatron::newest_megatron_version());
    EXPECT_TRUE(built.has_value()) << built.status().message();
    return request.places[0];
  }

  std::map<std::string, std::string> whole_;
};

TEST_F(GptIndexCacheDamage, MissingFiles) {
  for (const std::string& part : parts()) {
    SCOPED_TRACE(part);
    fs::remove(part);
    EXPECT_THAT(expect_repaired(), HasSubstr(part));
  }
}

TEST_F(GptIndexCacheDamage, FilesCutShortOrTooLong) {
  std::vector<std::string> all = parts();
  all.push_back(files().sidecar);
  for (const std::string& path : all) {
    const std::string bytes = test::read_file(path);
    for (const size_t size : {size_t{0}, size_t{1}, size_t{9}, size_t{100}, bytes.size() / 2,
                              bytes.size() - 4, bytes.size() - 1, bytes.size() + 4}) {
      // A sidecar may do without its last line's end.
      if (path == files().sidecar && size == bytes.size() - 1) continue;
      SCOPED_TRACE(path + " of " + std::to_string(size));
      std::string damaged = bytes;
      damaged.resize(size, 'x');
      test::write_file(path, damaged);
      EXPECT_THAT(expect_repaired(), HasSubstr(path));
    }
  }
}

TEST_F(GptIndexCacheDamage, ZerosInsteadOfContent) {
  for (const std::string& path : parts()) {
    SCOPED_TRACE(path);
    test::write_file(path, std::string(fs::file_size(path), '\0'));
    expect_repaired();
  }
}

TEST_F(GptIndexCacheDamage, EveryBitOfTheHeadersCounts) {
  const auto cache = open_cache();
  ASSERT_TRUE(cache.has_value());
  for (const std::string& path : parts()) {
    if (!path.ends_with(".npy")) continue;
    const std::string bytes = test::read_file(path);
    for (size_t bit = 0; bit < size_t{8} * 128; ++bit) {
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      test::write_file(path, damaged);
      EXPECT_FALSE(open_cached_index(files().indices, cache->plan).has_value())
          << path << ": bit " << bit;
    }
    test::write_file(path, bytes);
  }
  EXPECT_TRUE(open_cached_index(files().indices, cache->plan).has_value());
}

TEST_F(GptIndexCacheDamage, EntriesAtTheEnds) {
  for (const std::string& path : parts()) {
    if (!path.ends_with(".npy")) continue;
    for (const bool has_sidecar : {true, false}) {
      SCOPED_TRACE(path + (has_sidecar ? " with sidecar" : " without"));
      std::string bytes = test::read_file(path);
      // Far outside of everything, at the first entry and at the last one.
      bytes.replace(128, 4, "\x7f\x7f\x7f\x7f");
      bytes.replace(bytes.size() - 4, 4, "\x7f\x7f\x7f\x7f");
      test::write_file(path, bytes);
      if (!has_sidecar) fs::remove(files().sidecar);
      expect_repaired();
    }
  }
}

TEST_F(GptIndexCacheDamage, SwappedFiles) {
  const auto& [documents, samples, shuffle] = files().indices;
  for (const bool has_sidecar : {true, false}) {
    for (const auto& [a, b] : {std::pair(documents, samples), std::pair(samples, shuffle),
                               std::pair(documents, shuffle)}) {
      SCOPED_TRACE(a + " and " + b);
      fs::rename(a, folder_.path("aside"));
      fs::rename(b, a);
      fs::rename(folder_.path("aside"), b);
      if (!has_sidecar) fs::remove(files().sidecar);
      expect_repaired();
    }
  }
}

TEST_F(GptIndexCacheDamage, FilesOfAnotherSeed) {
  GptIndexCacheRequest request = request_;
  request.seed = 4321;
  const GptIndexCacheFiles other = build_elsewhere(request);
  const auto take = [&](const std::string& from, const std::string& to) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  };
  take(other.indices.shuffle_index, files().indices.shuffle_index);
  EXPECT_THAT(expect_repaired(), HasSubstr("found other files"));
  take(other.indices.document_index, files().indices.document_index);
  EXPECT_THAT(expect_repaired(), HasSubstr("found other files"));
  // Without the sidecar, the sample index does not fit the lengths of these documents.
  fs::remove(files().sidecar);
  take(other.indices.document_index, files().indices.document_index);
  EXPECT_THAT(expect_repaired(), HasSubstr("sample index: row"));
}

TEST_F(GptIndexCacheDamage, TheCacheOfAnotherDataset) {
  std::vector<int32_t> other_lengths = lengths();
  std::reverse(other_lengths.begin(), other_lengths.end());
  test::write_dataset(folder_.path("reversed"), other_lengths);
  const auto dataset = dataset::IndexedDataset::open(folder_.path("reversed"));
  ASSERT_TRUE(dataset.has_value());
  GptIndexCacheRequest request = request_;
  request.dataset = &*dataset;
  request.range = {.begin = kSequences - 190, .end = kSequences - 10};  // as many tokens
  build_elsewhere(request);
  for (const bool has_sidecar : {true, false}) {
    SCOPED_TRACE(has_sidecar);
    fs::remove_all(cache_);
    fs::copy(folder_.path("other"), cache_);
    if (!has_sidecar) fs::remove(files().sidecar);
    expect_repaired();
  }
}

TEST_F(GptIndexCacheDamage, AnotherDescriptionUnderTheName) {
  for (const std::string& text : {std::string(), request_.description + "\n",
                                  request_.description.substr(1), std::string("a Description")}) {
    test::write_file(files().description, text);
    EXPECT_THAT(expect_repaired(), HasSubstr("found another text"));
  }
}

TEST_F(GptIndexCacheDamage, DataThatGrew) {
  std::vector<int32_t> longer = lengths();
  longer.push_back(5);
  test::write_dataset(prefix_, longer);
  open_dataset();
  EXPECT_THAT(expect_outcome(CacheOutcome::kRebuilt), HasSubstr("it had 4042 bytes, now 4062"));
  expect_outcome(CacheOutcome::kFound);
}

TEST_F(GptIndexCacheDamage, DataOfTheSameSizeWithOtherEnds) {
  std::vector<int32_t> changed = lengths();
  std::swap(changed[20], changed[21]);
  test::write_dataset(prefix_, changed);
  open_dataset();
  EXPECT_THAT(expect_outcome(CacheOutcome::kRebuilt), HasSubstr("changed since"));
  expect_outcome(CacheOutcome::kFound);
}

TEST_F(GptIndexCacheDamage, DataOfTheSameSizeAndEndsWithOtherLengths) {
  // More than the ends that a stamp covers.
  std::vector<int32_t> many;
  for (int i = 0; i < 5000; ++i) many.push_back(i % 7 + 1);
  test::write_dataset(prefix_, many);
  open_dataset();
  request_.range = {.begin = 0, .end = 5000};
  age_idx();
  expect_outcome(CacheOutcome::kRebuilt);
  std::swap(many[2500], many[2501]);
  test::write_dataset(prefix_, many);
  open_dataset();
  EXPECT_THAT(expect_outcome(CacheOutcome::kRebuilt), HasSubstr("lengths changed since"));
  expect_outcome(CacheOutcome::kFound);
}

TEST_F(GptIndexCacheDamage, FoldersAndPipesInPlaceOfFiles) {
  fs::remove(files().sidecar);
  fs::create_directory(files().sidecar);
  expect_outcome(CacheOutcome::kRebuilt);
  fs::remove(files().description);
  ASSERT_EQ(::mkfifo(files().description.c_str(), 0666), 0);
  expect_repaired();
  fs::remove(files().sidecar);
  ASSERT_EQ(::mkfifo(files().sidecar.c_str(), 0666), 0);
  expect_repaired();
}

TEST_F(GptIndexCacheDamage, ASidecarOfALaterSchema) {
  std::string text = test::read_file(files().sidecar);
  text.replace(text.find("\"schema\": 1"), 11, "\"schema\": 2");
  test::write_file(files().sidecar, text);
  EXPECT_THAT(expect_repaired(), HasSubstr("schema: expected 1, found 2"));
}

}  // namespace
}  // namespace meg::samples
