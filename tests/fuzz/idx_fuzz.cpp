// Any .idx and .bin bytes, of both formats: opening, every accessor, summary, verify and merging
// must not crash, and must agree: what verify finds right can be read whole and merged.
//
// Input: the first two bytes are the number of .idx bytes (little endian, modulo what is there),
// which follow; the rest is .bin.

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/convert_dataset.h"
#include "libmeg/dataset/dataset_summary.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/merge_datasets.h"
#include "libmeg/dataset/verify_dataset.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

constexpr int64_t kMaxEntries = 1000;

/// A folder in memory where there is one, removed at exit.
class Folder {
 public:
  Folder() {
    const bool has_memory = std::filesystem::is_directory("/dev/shm");
    std::string pattern = has_memory ? "/dev/shm/idx_fuzz-XXXXXX" : "/tmp/idx_fuzz-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }

  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  ::unlink(path.c_str());
  FILE* file = ::fopen(path.c_str(), "wb");
  MEG_FUZZ_CHECK(file != nullptr);
  MEG_FUZZ_CHECK(::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
  ::fclose(file);
}

/// Reads every sequence and document; true where all of them can be read.
bool read_everything(const meg::dataset::IndexedDataset& dataset) {
  bool whole = true;
  int64_t sum = 0;
  const int64_t sequences = std::min(dataset.sequence_count(), kMaxEntries);
  for (int64_t i = 0; i < sequences; ++i) {
    const auto items = dataset.sequence(i);
    whole = whole && items.has_value();
    if (!items.has_value()) continue;
    for (const std::byte item : *items) sum += static_cast<int64_t>(item);
    std::vector<int64_t> wide(items->size() / static_cast<size_t>(dataset.item_size()));
    std::vector<int32_t> narrow(wide.size() / 2);
    const meg::Status status = dataset.copy_tokens(i, 0, wide);
    MEG_FUZZ_CHECK(status.ok() || status.code() == meg::StatusCode::kInvalidArgument);
    (void)dataset.copy_tokens(i, 1, narrow);
    if (dataset.multimodal()) sum += dataset.sequence_modes()[i];
  }
  for (int64_t i = 0; i < std::min(dataset.document_count(), kMaxEntries); ++i) {
    whole = dataset.document(i).has_value() && whole;
  }
  (void)dataset.tokens<uint16_t>(0);
  (void)dataset.tokens<double>(0);
  return whole && sum >= 0;
}

/// What verify finds right can be appended to another dataset.
void append(const std::string& prefix, const meg::dataset::IndexedDataset& dataset,
            const std::string& out) {
  auto builder = meg::dataset::IndexedDatasetBuilder::create(
      out, {.dtype = dataset.dtype(), .multimodal = dataset.multimodal()});
  MEG_FUZZ_CHECK(builder.has_value());
  MEG_FUZZ_CHECK(builder->add_index(prefix).ok());
  MEG_FUZZ_CHECK(builder->item_count() == dataset.item_count());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  if (size < 2) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
  const size_t idx_size = meg::load_le<uint16_t>(data) % (bytes.size() + 1);
  const std::string prefix = folder.path("set");
  write_file(prefix + ".idx", bytes.first(idx_size));
  write_file(prefix + ".bin", bytes.subspan(idx_size));

  const auto dataset = meg::dataset::IndexedDataset::open(prefix);
  const bool readable = dataset.has_value() && read_everything(*dataset);
  if (dataset.has_value()) (void)meg::dataset::summarize_lengths(*dataset);
  (void)meg::dataset::IndexedDataset::open(prefix, {.multimodal = true});
  const auto flat = meg::dataset::IndexedDataset::open(prefix, {.flatten = true});
  if (dataset.has_value() && readable) MEG_FUZZ_CHECK(flat.has_value() && !flat->flattened());
  if (flat.has_value()) {
    const bool whole = read_everything(*flat);
    for (int64_t i = 0; i < std::min(flat->sequence_count(), kMaxEntries); ++i) {
      MEG_FUZZ_CHECK(!flat->shape(i).empty());
    }
    // An index cannot ask for more than its items and documents.
    const auto converted = meg::dataset::convert_dataset(
        *flat, folder.path("converted"), {.format = meg::dataset::IndexFormat::kMmididx});
    MEG_FUZZ_CHECK(converted.has_value() == whole || flat->sequence_count() > kMaxEntries ||
                   flat->document_count() > kMaxEntries);
  }

  const auto report = meg::dataset::verify_dataset(prefix, {});
  MEG_FUZZ_CHECK(report.has_value() || report.error().code() == meg::StatusCode::kUnsupported);
  if (report.has_value()) {
    for (const meg::Problem& problem : report->problems) (void)problem.message();
    if (report->ok()) {
      MEG_FUZZ_CHECK(readable);
      MEG_FUZZ_CHECK(report->item_count == dataset->item_count());
      append(prefix, *dataset, folder.path("appended"));
    }
  }
  const auto merged = meg::dataset::merge_datasets({prefix, prefix}, folder.path("merged"), {});
  MEG_FUZZ_CHECK(merged.has_value() || !report.has_value() || !report->ok());
  (void)meg::dataset::verify_dataset(prefix, {.vocab_size = 100, .eod = 9, .workers = 1});
  return 0;
}
