// Any bytes as PREFIX.libmeg of a view: opening, verifying, making a view of it and merging give
// the dataset or an error of one line, and read nothing outside of .bin.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/dataset_view.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/shard_run.h"
#include "libmeg/dataset/verify_dataset.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

namespace fs = std::filesystem;
using meg::dataset::IndexedDataset;

meg::Status all_of(const IndexedDataset& set,
                   const std::function<meg::Status(int64_t, int64_t)>& take) {
  return take(0, set.document_count());
}

/// A dataset `d` and its view `v`.
struct Folder {
  Folder() {
    char name[] = "/tmp/meg-fuzz-XXXXXX";
    MEG_FUZZ_CHECK(::mkdtemp(name) != nullptr);
    path = name;
    auto builder = meg::dataset::IndexedDatasetBuilder::create(path + "/d", {});
    MEG_FUZZ_CHECK(builder.has_value());
    const std::vector<int32_t> items = {1, 2, 3};
    MEG_FUZZ_CHECK(builder->add_item(std::as_bytes(std::span(items))).ok());
    MEG_FUZZ_CHECK(builder->end_document().ok() && builder->finish().ok());
    MEG_FUZZ_CHECK(write_view("/d", "/v"));
  }

  ~Folder() { fs::remove_all(path); }

  bool write_view(const std::string& from, const std::string& to) const {
    const auto set = IndexedDataset::open(path + from);
    if (!set.has_value()) return false;
    return meg::dataset::write_dataset_view(
               *set, [&](const auto& take) { return all_of(*set, take); }, path + to, {})
        .has_value();
  }

  std::string path;
};

template <class T>
bool check(const meg::Result<T>& result) {
  if (result.has_value()) return true;
  MEG_FUZZ_CHECK(result.error().message().find('\n') == std::string::npos);
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  const std::string prefix = folder.path + "/v";
  fs::remove(prefix + ".libmeg");
  std::ofstream(prefix + ".libmeg", std::ios::binary)
      << std::string_view(reinterpret_cast<const char*>(data), size);

  const auto view = meg::dataset::read_view_of(prefix);
  const bool is_read = check(view);
  MEG_FUZZ_CHECK(check(meg::dataset::read_dataset_tokenizer(prefix)) == is_read);
  MEG_FUZZ_CHECK(check(meg::dataset::read_shard_run(prefix)) == is_read);
  const auto set = IndexedDataset::open(prefix);
  if (check(set)) {
    MEG_FUZZ_CHECK(is_read && set->sequence(0).has_value());
    MEG_FUZZ_CHECK(folder.write_view("/v", "/w"));
  }
  check(meg::dataset::verify_dataset(prefix, {}));
  return 0;
}
