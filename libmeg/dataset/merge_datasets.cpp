#include "libmeg/dataset/merge_datasets.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/dataset_view.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/internal/append_dataset.h"
#include "libmeg/dataset/internal/companion_files.h"
#include "libmeg/dataset/internal/dataset_file.h"
#include "libmeg/dataset/internal/merge_provenance.h"
#include "libmeg/dataset/internal/merge_tntidx.h"
#include "libmeg/dataset/internal/view_files.h"
#include "libmeg/dataset/shard_run.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/s3/find_objects.h"
#include "libmeg/s3/object_store.h"

namespace meg::dataset {
namespace {

namespace fs = std::filesystem;

/// What the inputs have in common.
struct Kind {
  DType dtype = DType::kInt32;
  bool multimodal = false;
  int64_t bin_bytes = 0;
};

/// A shell makes both files of each dataset of `parts/*`, which would be merged twice. The same
/// word given twice is what was asked for.
Status check_spelled_once(const std::vector<std::string>& paths) {
  std::map<std::string, std::string> spelled;  // by prefix
  for (const std::string& path : paths) {
    const auto [first, is_new] = spelled.try_emplace(dataset_prefix(path), path);
    if (is_new || first->second == path) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected each dataset once, also found this one as {}: give prefixes or "
                      "their folder",
                      path, first->second);
  }
  return Status();
}

/// A prefix `HEAD_shard00001of00004_TAIL`.
struct ShardName {
  std::string head;
  std::string index;
  std::string count;
  std::string tail;
};

std::optional<ShardName> shard_name(const std::string& prefix) {
  constexpr std::string_view kMark = "_shard", kOf = "of", kDigits = "0123456789";
  const size_t mark = prefix.rfind(kMark);
  if (mark == prefix.npos) return std::nullopt;
  const size_t index = mark + kMark.size();
  const size_t of = std::min(prefix.find_first_not_of(kDigits, index), prefix.size());
  const size_t count = of + kOf.size();
  if (of == index || prefix.compare(of, kOf.size(), kOf) != 0) return std::nullopt;
  const size_t tail = std::min(prefix.find_first_not_of(kDigits, count), prefix.size());
  if (tail - count != of - index || prefix.compare(tail, 1, "_") != 0) return std::nullopt;
  return ShardName{prefix.substr(0, index), prefix.substr(index, of - index),
                   prefix.substr(count, tail - count), prefix.substr(tail)};
}

/// Checks that all shards of one dataset are there, and none of another run or key.
///
/// Output names of preprocess_data say how many shards there are; merging those that happen to lie
/// there would give a smaller dataset, or one with every document twice, that looks whole. So would
/// shards of processes that saw other inputs.
Status check_shards(const std::vector<std::string>& prefixes) {
  using Shards = std::map<std::string, std::string>;  // prefixes by index
  std::map<std::array<std::string, 2>, std::map<std::string, Shards>> found;
  for (const std::string& prefix : prefixes) {
    const std::optional<ShardName> name = shard_name(prefix);
    if (!name) continue;
    Shards& shards = found[{name->head, name->tail}][name->count];
    if (shards.emplace(name->index, prefix).second) continue;
    return make_error(StatusCode::kInvalidArgument, "{}: expected each shard once, found it twice",
                      prefix);
  }
  const std::array<std::string, 2>* last = nullptr;
  for (const auto& [name, by_count] : found) {
    const auto& [head, tail] = name;
    // Keys are merged apart: together, a folder's order would deal titles and texts in turn.
    if (last != nullptr && last->front() == head) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}*: expected the shards of one key, found *{} and *{}", head,
                        last->back(), tail);
    }
    last = &name;
    const auto& [count, shards] = *by_count.begin();
    if (by_count.size() > 1) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}*of{}{}: expected the shards of one run, also found those of {}", head,
                        count, tail, std::next(by_count.begin())->first);
    }
    std::vector<std::string> of_run;
    for (size_t i = 0; i < shards.size() + 1; ++i) {
      const std::string index = fmt::format("{:0{}}", i, count.size());
      if (index == count) break;
      const auto shard = shards.find(index);
      if (shard == shards.end()) {
        return make_error(StatusCode::kNotFound,
                          "{}{}of{}{}: expected all shards of this dataset, found {}", head, index,
                          count, tail, shards.size());
      }
      of_run.push_back(shard->second);
    }
    MEG_RETURN_IF_ERROR(check_same_run(of_run));
  }
  return Status();
}

/// Looks at every input before the first is copied, so that a wrong one costs no time.
Result<Kind> kind_of(const std::vector<std::string>& prefixes, const MergeOptions& options) {
  Kind kind;
  std::string first;
  bool has_sequences = false;
  for (const std::string& prefix : prefixes) {
    MEG_ASSIGN_OR_RETURN(const IndexedDataset set,
                         IndexedDataset::open(prefix, {.multimodal = options.multimodal}));
    // Only an object of a store can differ: the formats of files were compared before.
    if (set.format() != IndexFormat::kMmididx) {
      return make_error(StatusCode::kUnsupported,
                        "{}: expected MMIDIDX, found {}, which is merged from files only",
                        set.idx().path(), index_format_name(set.format()));
    }
    if (first.empty()) kind.dtype = options.dtype.value_or(set.dtype());
    if (!options.dtype && set.dtype() != kind.dtype) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected dtype {} as in {}, found {}: give the dtype to widen all to",
                        set.prefix(), dtype_name(kind.dtype), first, dtype_name(set.dtype()));
    }
    if (!dtype_holds(kind.dtype, set.dtype())) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: dtype {} cannot hold all values of its {}", set.prefix(),
                        dtype_name(kind.dtype), dtype_name(set.dtype()));
    }
    first = first.empty() ? set.prefix() : first;
    if (!has_sequences) kind.multimodal = options.multimodal.value_or(set.multimodal());
    // An empty dataset has no modes, so it neither decides nor contradicts.
    has_sequences = has_sequences || set.sequence_count() > 0;
    kind.bin_bytes += set.bin().size();
  }
  return kind;
}

/// kind, tokenizer: of all inputs.
Result<MergeSummary> merge_mmididx(const std::vector<std::string>& prefixes,
                                   const std::string& output_prefix, const Kind& kind,
                                   std::optional<DatasetTokenizer> tokenizer,
                                   const MergeOptions& options) {
  const IndexedDatasetBuilder::Options output{
      .dtype = kind.dtype, .multimodal = kind.multimodal, .tokenizer = std::move(tokenizer)};
  MergeSummary summary;
  MEG_ASSIGN_OR_RETURN(IndexedDatasetBuilder builder,
                       IndexedDatasetBuilder::create(output_prefix, output));
  Progress done{.total_bytes = kind.bin_bytes};
  AppendOptions append{.widen = options.dtype.has_value(), .moved = [&](int64_t bytes) {
                         done.bytes += bytes;
                         return !options.progress || options.progress(done);
                       }};
  for (const std::string& prefix : prefixes) {
    MEG_ASSIGN_OR_RETURN(const IndexedDataset set,
                         IndexedDataset::open(prefix, {.multimodal = options.multimodal}));
    // Opened a second time and let go one by one: thousands of inputs are not mapped at once.
    MEG_ASSIGN_OR_RETURN(const std::optional<ViewOf> view, read_view_of(set.prefix()));
    append.views = view || options.take_short_lengths_as_view ? Views::kTake : Views::kTell;
    MEG_ASSIGN_OR_RETURN(const bool is_view, append_dataset(builder, set, append));
    if (is_view) {
      summary.notes.push_back(fmt::format("{}: a view: its sequences were gathered from {}",
                                          set.prefix(), set.bin().path()));
    }
    done.documents = builder.document_count();
    done.tokens = builder.item_count();
  }
  summary.datasets = std::ssize(prefixes);
  summary.documents = builder.document_count();
  summary.sequences = builder.sequence_count();
  summary.items = builder.item_count();
  summary.bytes = summary.items * dtype_size(kind.dtype);
  MEG_RETURN_IF_ERROR(builder.finish());
  return summary;
}

/// The format of an .idx file. Objects of a store count as MMIDIDX until they are opened.
Result<IndexFormat> format_of(const std::string& prefix) {
  if (s3::is_address(prefix)) return IndexFormat::kMmididx;
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor idx,
                       io::FileDescriptor::open_regular(prefix + ".idx"));
  std::array<std::byte, kIndexMagic.size()> begin{};
  MEG_ASSIGN_OR_RETURN(const size_t got, idx.read_at(0, begin));
  return index_format(std::span(begin).first(got));
}

/// The format of all inputs.
Result<IndexFormat> common_format(const std::vector<std::string>& prefixes) {
  MEG_ASSIGN_OR_RETURN(const IndexFormat first, format_of(prefixes.front()));
  for (const std::string& prefix : prefixes) {
    MEG_ASSIGN_OR_RETURN(const IndexFormat format, format_of(prefix));
    if (format == first) continue;
    return make_error(StatusCode::kInvalidArgument, "{}.idx: expected {} like {}.idx, found {}",
                      prefix, index_format_name(first), prefixes.front(),
                      index_format_name(format));
  }
  return first;
}

/// Whether the name of a dataset ends as preprocess_data names those of a key. What ends so may
/// also be that of a longer key, which only the name of a shard tells.
bool is_of_key(const std::string& prefix, const std::string& key, std::string_view level) {
  const std::string ending = fmt::format("_{}_{}", key, level);
  const std::optional<ShardName> shard = shard_name(prefix);
  return shard ? shard->tail == ending : prefix.ends_with(ending);
}

/// Files or objects right in the folder.
Result<std::set<std::string>> files_in(const std::string& folder) {
  std::set<std::string> files;
  if (s3::is_address(folder)) {
    MEG_ASSIGN_OR_RETURN(const std::vector<std::string> found, s3::find_objects(folder));
    files.insert(found.begin(), found.end());
    return files;
  }
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code gone;
    if (entry->is_regular_file(gone)) files.insert(entry->path().string());
  }
  if (failed) return errno_error(failed.value(), folder);
  return files;
}

}  // namespace

Result<MergeSummary> merge_datasets(const std::vector<std::string>& paths,
                                    const std::string& output_path, const MergeOptions& options) {
  if (paths.empty()) {
    return make_error(StatusCode::kInvalidArgument, "input: expected at least one dataset");
  }
  MEG_RETURN_IF_ERROR(check_spelled_once(paths));
  std::vector<std::string> prefixes;
  for (const std::string& path : paths) {
    prefixes.push_back(dataset_prefix(path));
    MEG_RETURN_IF_ERROR(check_is_readable(prefixes.back()));
  }
  const std::string output_prefix = dataset_prefix(output_path);
  for (const std::string& prefix : prefixes) {
    MEG_RETURN_IF_ERROR(check_output(prefix, output_prefix, OutputBin::kOwn));
  }
  MEG_RETURN_IF_ERROR(check_shards(prefixes));
  MEG_ASSIGN_OR_RETURN(const IndexFormat format, common_format(prefixes));
  // The pairs come before what lies beside them, so that an error names the pair.
  Kind kind;
  if (format == IndexFormat::kMmididx) {
    MEG_ASSIGN_OR_RETURN(kind, kind_of(prefixes, options));
  }
  std::vector<std::string> notes;
  MEG_ASSIGN_OR_RETURN(const auto tokenizer, common_tokenizer(prefixes, notes));
  MEG_ASSIGN_OR_RETURN(auto provenance, merged_provenance(prefixes, output_prefix, notes));
  MEG_ASSIGN_OR_RETURN(MergeSummary summary,
                       format == IndexFormat::kTntidx
                           ? merge_tntidx(prefixes, output_prefix, tokenizer, options)
                           : merge_mmididx(prefixes, output_prefix, kind, tokenizer, options));
  // Publish after the pair, because the provenance holds the checksum of the .idx that is in place.
  if (provenance.has_value()) MEG_RETURN_IF_ERROR(provenance->publish());
  summary.notes.insert(summary.notes.begin(), notes.begin(), notes.end());
  return summary;
}

bool is_dataset_folder(const std::string& input) {
  if (input.ends_with('/') || s3::is_address(input)) return input.ends_with('/');
  std::error_code missing;
  // Index caches make a folder PREFIX beside PREFIX.idx: the dataset comes first.
  for (const char* const suffix : {".idx", ".bin"}) {
    if (fs::is_regular_file(input + suffix, missing)) return false;
  }
  return fs::is_directory(input, missing);
}

Result<std::vector<std::string>> dataset_prefixes_in(const std::string& folder) {
  MEG_ASSIGN_OR_RETURN(const std::set<std::string> files, files_in(folder));
  std::set<std::string> prefixes;
  for (const std::string& file : files) {
    const size_t name = file.rfind('/') + 1;
    const size_t ending = file.rfind('.');
    // Cut like Python's splitext: a name that only begins with a dot has no ending.
    prefixes.insert(ending == file.npos || ending <= name ? file : file.substr(0, ending));
  }
  if (prefixes.empty()) {
    return make_error(StatusCode::kNotFound, "{}: expected .bin and .idx files, found none",
                      folder);
  }
  for (const std::string& prefix : prefixes) {
    for (const char* const ending : {".bin", ".idx"}) {
      if (files.contains(prefix + ending)) continue;
      return make_error(StatusCode::kNotFound, "{}{}: expected this file beside {}.*, found none",
                        prefix, ending, prefix);
    }
  }
  return std::vector<std::string>(prefixes.begin(), prefixes.end());
}

Result<std::vector<std::string>> dataset_prefixes_of_key(const std::string& folder,
                                                         const std::vector<std::string>& prefixes,
                                                         const std::string& key) {
  std::vector<std::string> documents;
  std::vector<std::string> sentences;
  for (const std::string& prefix : prefixes) {
    if (is_of_key(prefix, key, "document")) documents.push_back(prefix);
    if (is_of_key(prefix, key, "sentence")) sentences.push_back(prefix);
  }
  // Both or neither.
  if (documents.empty() == sentences.empty()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected datasets *_{}_document or *_{}_sentence, found {}", folder, key,
                      key, documents.empty() ? "neither" : "both");
  }
  return documents.empty() ? sentences : documents;
}

}  // namespace meg::dataset
