#include "libmeg/preprocess/sources/internal/first_documents.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "libmeg/io/byte_stream.h"
#include "libmeg/preprocess/sources/internal/begin_check.h"
#include "libmeg/preprocess/sources/internal/column_reader.h"
#include "libmeg/preprocess/sources/internal/input_file.h"
#include "libmeg/preprocess/sources/internal/input_kind.h"
#include "libmeg/preprocess/sources/internal/input_paths.h"
#include "libmeg/preprocess/sources/internal/record_scanner.h"

namespace meg::preprocess {
namespace {

/// Bytes that are read at a time, and in all: a first document that is longer is not judged.
constexpr size_t kStep = size_t{64} << 10;
constexpr size_t kJudged = size_t{1} << 20;

/// A file read in steps, one request each where it is an object of a store.
class StepStream : public io::ByteStream {
 public:
  StepStream(const InputFile& file, ByteRange range) : file_(file), rest_(range) {}

  Result<size_t> read(std::span<std::byte> into) override {
    if (taken_ == step_.size()) {
      step_.resize(
          static_cast<size_t>(std::min(rest_.end - rest_.begin, static_cast<int64_t>(kStep))));
      MEG_ASSIGN_OR_RETURN(const size_t got,
                           file_.read_at(rest_.begin, std::as_writable_bytes(std::span(step_))));
      step_.resize(got);
      rest_.begin += static_cast<int64_t>(got);
      taken_ = 0;
    }
    const size_t count = std::min(into.size(), step_.size() - taken_);
    std::memcpy(into.data(), step_.data() + taken_, count);
    taken_ += count;
    return count;
  }

 private:
  const InputFile& file_;
  ByteRange rest_;
  std::string step_;
  size_t taken_ = 0;
};

/// Reads on until a document has ended.
Status fill(io::ByteStream& stream, BeginCheck& begin, bool is_judged, RecordScanner& scanner,
            const std::string& name, TextChunk& chunk) {
  size_t used = 0;
  Status scanned;
  for (bool is_end = false; !is_end && used < kJudged && scanner.end() == 0 && scanned.ok();) {
    if (!is_judged && begin.is_done()) break;
    MEG_RETURN_IF_ERROR(grow_chunk(chunk, used + kStep).with_prefix(name));
    char* const free = chunk.buffer.get() + used;
    MEG_ASSIGN_OR_RETURN(const size_t got,
                         stream.read(std::as_writable_bytes(std::span(free, kStep))));
    is_end = got == 0;
    used += got;
    const std::string_view text(chunk.buffer.get(), used);
    MEG_RETURN_IF_ERROR(begin.check(text));
    if (is_judged) scanned = scanner.scan(text, is_end).with_prefix(name);
  }
  const size_t end = scanner.end();
  scanner.take(std::string_view(chunk.buffer.get(), used), chunk);
  if (end > 0) finish_chunk(chunk, end);
  // Documents before an error count first.
  return chunk.records.empty() ? scanned : Status();
}

}  // namespace

Status read_first_documents(const std::string& path, const InputOptions& options,
                            const std::vector<std::string>& keys, TextChunk& chunk) {
  chunk.lines = {};
  chunk.records.clear();
  if (path == kStandardInput || is_pipe(path)) return Status();
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file, InputFile::open(path));
  MEG_ASSIGN_OR_RETURN(const auto range, file->extent());
  if (!range.has_value() || range->begin == range->end) return Status();
  MEG_ASSIGN_OR_RETURN(const InputKind kind, kind_of(*file, *range, options));
  if (kind.columns != ColumnFormat::kNone) {
    // The footers of thousands of objects would take as many requests, one after another.
    if (file->is_remote()) return Status();
    return ColumnReader::open(*file, kind.columns, keys, kJudged).status();
  }
  const InputFormat format = format_of(path, options);
  BeginCheck begin(file->name(), format, options);
  if (kind.is_compressed) begin.expect_foreign();
  MEG_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::ByteStream> stream,
      io::content_stream(std::make_unique<StepStream>(*file, *range), file->name(),
                         {.max_compression_ratio = options.max_compression_ratio, .ahead = false}));
  const std::unique_ptr<RecordScanner> scanner = make_scanner(format, options, keys);
  return fill(*stream, begin, format != InputFormat::kTxt, *scanner, file->name(), chunk);
}

}  // namespace meg::preprocess
