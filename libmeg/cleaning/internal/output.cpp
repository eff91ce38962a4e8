#include "libmeg/cleaning/internal/output.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "libmeg/text/text_padding.h"

namespace meg::cleaning {
namespace {

Status failed(std::string_view what) {
  return make_error(StatusCode::kResourceExhausted, "{}: cannot compress the output", what);
}

Result<std::string> gzipped(std::string_view text) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return failed("gzip");
  }
  // One call takes at most 4 GiB.
  constexpr size_t kMost = size_t{1} << 30;
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  size_t written = 0;
  int code = Z_OK;
  while (code == Z_OK || code == Z_BUF_ERROR) {
    const size_t taken = std::min(text.size(), kMost);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(taken);
    const size_t room = std::min(out.size() - written, kMost);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = static_cast<uInt>(room);
    code = deflate(&stream, taken == text.size() ? Z_FINISH : Z_NO_FLUSH);
    text.remove_prefix(taken - stream.avail_in);
    written += room - stream.avail_out;
  }
  deflateEnd(&stream);
  if (code != Z_STREAM_END) return failed("gzip");
  out.resize(written);
  return out;
}

Result<std::string> zstandard(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const size_t size =
      ZSTD_compress(out.data(), out.size(), text.data(), text.size(), ZSTD_CLEVEL_DEFAULT);
  if (ZSTD_isError(size) != 0) return failed("zstd");
  out.resize(size);
  return out;
}

/// A sequence's length is an int32 in .idx; texts up to this many bytes cannot exceed it, with the
/// end-of-document token.
constexpr size_t kLongestText = std::numeric_limits<int32_t>::max() - 1;

/// After the names of files that another process can resume. `.resume` is the journal's folder.
constexpr const char* kUnfinished = ".unfinished";

std::string dataset_prefix(const CleanOptions& options, const std::string& path) {
  return fmt::format("{}_{}_document", path, options.json_keys.front());
}

}  // namespace

bool is_txt(const CleanOptions& options) {
  if (options.dataset) return false;
  std::string_view path = options.output;
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return path.ends_with(".txt");
}

std::vector<std::string> output_paths(const CleanOptions& options) {
  if (options.splits.empty()) return {options.output};
  std::vector<std::string> paths;
  for (const Split& split : options.splits) {
    std::string path = options.output;
    const size_t place = path.find(kSplitPlace);
    paths.push_back(path.replace(place, kSplitPlace.size(), split.name));
  }
  return paths;
}

std::vector<std::string> output_files(const CleanOptions& options, const std::string& path) {
  if (!options.dataset) return {path};
  const std::string prefix = dataset_prefix(options, path);
  return {prefix + ".bin", prefix + ".idx"};
}

BlockPacker::BlockPacker(const CleanOptions& options)
    : options_(options),
      editor_(options),
      tokens_(options.dataset ? options.dataset->dtype.value_or(DType::kInt32) : DType::kInt32) {
  if (options.dataset) encoder_ = options.tokenizer->new_encoder(tokens_.dtype());
}

Status BlockPacker::pack(OutputBlock& block) {
  if (options_.dataset) return tokenize(block);
  if (options_.output.ends_with(".gz")) {
    MEG_ASSIGN_OR_RETURN(block.bytes, gzipped(block.bytes));
  } else if (options_.output.ends_with(".zst")) {
    MEG_ASSIGN_OR_RETURN(block.bytes, zstandard(block.bytes));
  }
  return {};
}

/// By the rules of preprocess_data, which would read the same lines.
Status BlockPacker::tokenize(OutputBlock& block) {
  tokens_.clear();
  std::string_view lines = block.bytes;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n') + 1);
    lines.remove_prefix(line.size());
    const std::string_view text = editor_.text_of(line);
    if (text.size() > kLongestText) {
      return make_error(StatusCode::kUnsupported, "expected texts of at most {} bytes, found {}",
                        kLongestText, text.size());
    }
    const int64_t before = tokens_.size();
    MEG_RETURN_IF_ERROR(encoder_->encode(text, tokens_));
    const bool has_tokens = tokens_.size() > before;
    if (has_tokens && options_.dataset->append_eod) tokens_.push_back(*options_.tokenizer->eod());
    if (has_tokens) {
      block.sequence_lengths.push_back(static_cast<int32_t>(tokens_.size() - before));
    }
    block.document_sequence_counts.push_back(has_tokens ? 1 : 0);
  }
  const auto bytes = tokens_.bytes();
  block.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {};
}

Result<Output> Output::create(const CleanOptions& options, const std::string& path,
                              const std::optional<OutputMark>& resume_at) {
  using Mark = dataset::IndexedDatasetBuilder::Mark;
  Output output;
  if (!options.dataset) {
    output.path_ = path;
    if (!resume_at) {
      MEG_ASSIGN_OR_RETURN(output.file_, io::AtomicFile::create(path));
      return output;
    }
    MEG_ASSIGN_OR_RETURN(output.file_, io::AtomicFile::open_kept(path, kUnfinished));
    MEG_RETURN_IF_ERROR(output.file_.truncate(resume_at->bytes));
    output.bytes_ = resume_at->bytes;
    return output;
  }
  const DatasetOutput& dataset = *options.dataset;
  output.path_ = dataset_prefix(options, path);
  dataset::IndexedDatasetBuilder::Options builder_options{
      .format = dataset.format, .dtype = *dataset.dtype, .tokenizer = dataset.tokenizer};
  std::optional<int64_t> documents;
  if (resume_at) {
    builder_options.resume_at = Mark{resume_at->sequences, resume_at->documents, resume_at->tokens};
    documents = resume_at->documents;
  }
  MEG_ASSIGN_OR_RETURN(output.builder_,
                       dataset::IndexedDatasetBuilder::create(output.path_, builder_options));
  if (dataset.provenance) {
    MEG_ASSIGN_OR_RETURN(output.provenance_,
                         dataset::ProvenanceWriter::create(output.path_, documents));
  }
  return output;
}

Status Output::write(const OutputBlock& block) {
  const auto bytes = std::as_bytes(std::span(block.bytes));
  if (!builder_) {
    if (!bytes_) return file_.write(bytes);
    MEG_RETURN_IF_ERROR(file_.write_at(*bytes_, bytes));
    *bytes_ += std::ssize(bytes);
    return {};
  }
  if (provenance_) MEG_RETURN_IF_ERROR(provenance_->append(block.places));
  MEG_ASSIGN_OR_RETURN(const int64_t offset,
                       builder_->reserve(block.sequence_lengths, block.document_sequence_counts));
  return builder_->write_at(offset, bytes);
}

Result<OutputMark> Output::mark() {
  if (!builder_) return OutputMark{.bytes = *bytes_};
  if (provenance_) MEG_RETURN_IF_ERROR(provenance_->flush());
  MEG_ASSIGN_OR_RETURN(const auto mark, builder_->mark());
  return OutputMark{.sequences = mark.sequences, .documents = mark.documents, .tokens = mark.items};
}

Status Output::sync() {
  if (!builder_) {
    io::AtomicFile* const file = &file_;
    return io::AtomicFile::flush_all({&file, 1});
  }
  if (provenance_) MEG_RETURN_IF_ERROR(provenance_->sync());
  return builder_->sync();
}

Status Output::publish_all(const CleanOptions& options, std::span<const std::string> paths,
                           std::span<const OutputMark> marks) {
  std::vector<io::AtomicFile::Kept> files;
  std::vector<dataset::IndexedDatasetBuilder::Finished> datasets;
  for (size_t i = 0; i < paths.size(); ++i) {
    const OutputMark& mark = marks[i];
    if (!options.dataset) {
      files.push_back({.path = paths[i], .suffix = kUnfinished, .size = mark.bytes});
      continue;
    }
    datasets.push_back({.prefix = dataset_prefix(options, paths[i]),
                        .format = options.dataset->format,
                        .dtype = *options.dataset->dtype,
                        .mark = {mark.sequences, mark.documents, mark.tokens},
                        .tokenizer = options.dataset->tokenizer});
  }
  if (!options.dataset) return io::AtomicFile::publish_kept(files);
  MEG_RETURN_IF_ERROR(dataset::IndexedDatasetBuilder::publish_all(datasets));
  for (const auto& finished : datasets) {
    if (!options.dataset->provenance) break;
    MEG_RETURN_IF_ERROR(dataset::ProvenanceWriter::publish_kept(finished.prefix));
  }
  return {};
}

Status Output::commit_all(std::span<Output> outputs, const std::vector<std::string>& sources,
                          const std::function<Status()>& before_publishing) {
  std::vector<io::AtomicFile*> files;
  std::vector<dataset::IndexedDatasetBuilder*> builders;
  for (Output& output : outputs) {
    if (output.builder_) {
      builders.push_back(&*output.builder_);
    } else {
      files.push_back(&output.file_);
    }
    if (!output.provenance_) continue;
    MEG_RETURN_IF_ERROR(output.provenance_->complete(sources));
    MEG_RETURN_IF_ERROR(output.provenance_->sync());
  }
  if (!files.empty()) {
    if (before_publishing) {
      MEG_RETURN_IF_ERROR(io::AtomicFile::flush_all(files));
      MEG_RETURN_IF_ERROR(before_publishing());
    }
    MEG_RETURN_IF_ERROR(io::AtomicFile::commit_all(files));
  }
  if (!builders.empty()) {
    MEG_RETURN_IF_ERROR(dataset::IndexedDatasetBuilder::finish_all(builders, before_publishing));
  }
  // Provenance without its dataset would describe an older one.
  for (Output& output : outputs) {
    if (output.provenance_) MEG_RETURN_IF_ERROR(output.provenance_->publish());
  }
  return {};
}

}  // namespace meg::cleaning
