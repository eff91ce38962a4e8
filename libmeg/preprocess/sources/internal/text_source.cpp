#include "libmeg/preprocess/sources/internal/text_source.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "libmeg/io/byte_stream.h"
#include "libmeg/io/digest.h"
#include "libmeg/preprocess/sources/internal/begin_check.h"
#include "libmeg/preprocess/sources/internal/columns_ahead.h"
#include "libmeg/preprocess/sources/internal/input_file.h"
#include "libmeg/preprocess/sources/internal/input_kind.h"
#include "libmeg/preprocess/sources/internal/input_paths.h"
#include "libmeg/preprocess/sources/internal/text_reader.h"
#include "libmeg/text/line_ends.h"

// Inputs one after another, chunks in numbered order, asked for by several threads. Under the mutex
// a thread only claims what is next: a range of a file that is cut, a chunk of columns, a whole
// small file. It reads these after giving the mutex back. What can only be read from begin to end
// (pipes, large compressed files) is read under the mutex.

namespace meg::preprocess {
namespace {

/// Compressed files up to this part of a chunk, which they are about when decompressed, are read
/// whole by the thread that asks for documents, side by side with others, as are objects of a store
/// up to a chunk; larger ones one after another, each on a thread of its own, in little memory.
constexpr int64_t kWholeFilePart = 8;

/// Threads that decompress one file, beside those that ask for documents.
constexpr int kUnpackThreads = 4;

Status no_chunk_ends_at(const std::string& path, int64_t offset) {
  return make_error(StatusCode::kCorruption,
                    "{}: cannot continue at byte {}: the content has changed", path, offset);
}

/// An input whose turn it is: cut, streamed, or read by rows.
struct OpenInput {
  OpenInput(std::unique_ptr<InputFile> opened, InputFormat by_name, const InputOptions& options)
      : file(std::move(opened)), begin(file->name(), by_name, options) {}

  std::unique_ptr<InputFile> file;
  RecordFormat format = RecordFormat::kJsonLines;  // of what is cut
  std::optional<FileCutter> cutter;
  std::optional<StreamReader> stream;
  bool is_whole = false;  // the stream is one chunk
  std::optional<ColumnsAhead> columns;
  BeginCheck begin;
};

/// The next documents and how they are read. A stream's are in the chunk already.
struct Claim {
  std::shared_ptr<OpenInput> input;
  ByteRange range;                             // of a cut file
  std::shared_ptr<ColumnsAhead::Piece> piece;  // of columns
};

/// Machines may have the inputs in different folders.
std::string text_of_inputs(const std::vector<std::string>& paths,
                           const std::vector<InputSize>& sizes) {
  io::Digest digest;
  int64_t bytes = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string line =
        fmt::format("{} {}\n", sizes[i].range.end, paths[i].substr(paths[i].rfind('/') + 1));
    digest.add(std::as_bytes(std::span(line)));
    bytes += sizes[i].range.end;
  }
  return fmt::format("{} of {} bytes ({})", paths.size(), bytes, digest.hex());
}

}  // namespace

struct TextSource::State {
  Status add_input(const std::string& path, std::vector<InputSize>& sizes);
  Status keep_shard(const std::vector<InputSize>& sizes);
  Status open_next_input();
  Status open_columns(ColumnFormat format, int64_t row);
  Status open_lines(InputFormat format, const InputKind& kind, ByteRange whole, int64_t begin);
  void open_stream(InputFormat format, std::unique_ptr<io::ByteStream> stream, int64_t offset);
  io::StreamOptions stream_options() const;
  bool is_small(ByteRange part, int64_t share) const;
  Status skip_to(int64_t offset);
  Result<bool> claim(TextChunk& chunk, Claim& claimed);
  Status take_documents(TextChunk& chunk, Claim& claimed);

  size_t chunk_bytes = 0;
  InputOptions options;
  std::vector<std::string> keys;
  int64_t total_bytes = 0;
  bool has_pipe = false;
  std::vector<std::string> paths;
  std::vector<std::string> names;
  std::vector<std::string> notes;
  std::string shared_inputs;
  std::vector<ByteRange> parts;  // of each path, where there are several shards; of columns groups

  std::atomic<bool> interrupted = false;
  std::mutex mutex;   // guards what follows
  int64_t start = 0;  // in the content of the next input
  size_t next_input = 0;
  int64_t next_number = 0;
  std::shared_ptr<OpenInput> current;  // shared with the threads that read from it
};

Status TextSource::State::add_input(const std::string& path, std::vector<InputSize>& sizes) {
  const InputFormat format = format_of(path, options);
  if (format == InputFormat::kTxt && keys.size() != 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected one JSON key for plain text, found {}", path, keys.size());
  }
  MEG_ASSIGN_OR_RETURN(const InputSize size, check_input(path, options));
  const bool is_once = size.is_pipe || path == kStandardInput;
  if (is_once && options.shard.count > 1) {
    return make_error(StatusCode::kUnsupported,
                      "{}: expected files to divide among shards, found a pipe",
                      path == kStandardInput ? "standard input" : path);
  }
  // -1: unknown as soon as one input's is.
  const bool is_known = size.bytes >= 0 && total_bytes >= 0;
  total_bytes = is_known ? total_bytes + size.bytes : -1;
  has_pipe = has_pipe || size.is_pipe;
  sizes.push_back(size);
  return Status();
}

// Leaves only what belongs to the shard. Sizes of compressed files count as they are on the disk:
// nobody knows the others without decompressing them.
Status TextSource::State::keep_shard(const std::vector<InputSize>& sizes) {
  int64_t run_bytes = 0;
  for (const InputSize& size : sizes) run_bytes += size.range.end;
  int64_t before = 0;
  shared_inputs = text_of_inputs(paths, sizes);
  const std::vector<std::string> all = std::exchange(paths, {});
  if (total_bytes >= 0) total_bytes = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    MEG_ASSIGN_OR_RETURN(const auto part,
                         part_of_shard(all[i], sizes[i], before, run_bytes, options));
    before += sizes[i].range.end;
    if (!part.has_value()) continue;
    paths.push_back(all[i]);
    parts.push_back(*part);
    if (total_bytes >= 0) total_bytes += part->end - part->begin;
  }
  return Status();
}

Status TextSource::State::open_next_input() {
  const std::string& path = paths[next_input];
  const int64_t begin = std::exchange(start, 0);
  const InputFormat format = format_of(path, options);
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<InputFile> file, InputFile::open(path));
  ++next_input;
  MEG_ASSIGN_OR_RETURN(const auto range, file->extent());
  // The threads that still read ranges of the last input keep it alive by their claims.
  current = std::make_shared<OpenInput>(std::move(file), format, options);
  InputKind kind;
  // Files of the kernel (/proc) say that they are empty, and are not.
  const bool has_content = range.has_value() && range->end > range->begin;
  if (has_content) {
    MEG_ASSIGN_OR_RETURN(kind, kind_of(*current->file, *range, options));
    if (kind.columns != ColumnFormat::kNone) return open_columns(kind.columns, begin);
    if (kind.has_lines) return open_lines(format, kind, *range, begin);
    // Take it whole from the begin only: a resumed stream has to be read up to its place.
    current->is_whole = kind.is_compressed && begin == 0 && is_small(*range, kWholeFilePart);
  }
  if (!has_content || kind.is_compressed) current->begin.expect_foreign();
  const InputFile& input = *current->file;
  const io::StreamOptions how = stream_options();
  MEG_ASSIGN_OR_RETURN(
      std::unique_ptr<io::ByteStream> stream,
      io::content_stream(input.stream(has_content ? range : std::nullopt, how), input.name(), how));
  open_stream(format, std::move(stream), 0);
  return skip_to(begin);
}

io::StreamOptions TextSource::State::stream_options() const {
  return {.interrupted = &interrupted,
          .max_compression_ratio = options.max_compression_ratio,
          .ahead = !current->is_whole,
          .threads = current->is_whole ? 1 : kUnpackThreads};
}

/// Plain lines in `whole` of the current file, from byte `begin` on.
Status TextSource::State::open_lines(InputFormat format, const InputKind& kind, ByteRange whole,
                                     int64_t begin) {
  // Plain text that is cut never goes through a stream, so its begin is looked at here.
  MEG_RETURN_IF_ERROR(current->begin.check(kind.first_byte));
  ByteRange part = parts.empty() ? whole : parts[next_input - 1];
  if (begin > part.end) return no_chunk_ends_at(current->file->name(), begin);
  part.begin = std::max(part.begin, begin);
  // Each range of an object would be a request of its own, with its latency.
  if (current->file->is_remote()) {
    current->is_whole = is_small(part, 1);
    open_stream(format, current->file->stream(part, stream_options()), part.begin);
    return Status();
  }
  if (format == InputFormat::kTxt) current->format = RecordFormat::kTxtLines;
  current->cutter.emplace(*current->file, part, chunk_bytes);
  return Status();
}

/// Whether a thread may read the part as one chunk, of which it is `share`.
bool TextSource::State::is_small(ByteRange part, int64_t share) const {
  return part.end - part.begin <= static_cast<int64_t>(chunk_bytes) / share;
}

/// stream: the current file's content from `offset` on.
void TextSource::State::open_stream(InputFormat format, std::unique_ptr<io::ByteStream> stream,
                                    int64_t offset) {
  const auto check = [input = current.get()](std::string_view text) {
    return input->begin.check(text);
  };
  current->stream.emplace(std::move(stream), offset, check, make_scanner(format, options, keys),
                          current->file->name(), chunk_bytes);
}

/// The current file's rows, from `row` of its part on.
Status TextSource::State::open_columns(ColumnFormat format, int64_t row) {
  // The input outlives its columns, the source its inputs.
  const auto open = [this, file = current->file.get(), format] {
    return ColumnReader::open(*file, format, keys, chunk_bytes);
  };
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<ColumnReader> reader, open());
  const ByteRange groups = parts.empty() ? ByteRange{0, reader->groups()} : parts[next_input - 1];
  MEG_RETURN_IF_ERROR(reader->select(groups.begin, groups.end, row));
  current->columns.emplace(std::move(reader), open);
  return Status();
}

// Reads the current stream's chunks up to `offset`, as they were read before: what was compressed
// has no other way to a byte of its content. Chunks end at the same places because the journal has
// the same chunk_bytes.
Status TextSource::State::skip_to(int64_t offset) {
  TextChunk skipped;
  for (int64_t at = 0; at < offset;) {
    if (interrupted) return Status(StatusCode::kCancelled, "interrupted");
    MEG_RETURN_IF_ERROR(current->stream->next(skipped));
    at = skipped.end;
    if (skipped.lines.empty() || at > offset)
      return no_chunk_ends_at(current->file->name(), offset);
  }
  return Status();
}

/// Those of the current input, if it has more. A cut file's run, columns and a whole file are left
/// to be read.
Status TextSource::State::take_documents(TextChunk& chunk, Claim& claimed) {
  if (current->cutter) {
    chunk.format = current->format;
    MEG_ASSIGN_OR_RETURN(claimed.range, current->cutter->next());
  } else if (current->columns) {
    MEG_ASSIGN_OR_RETURN(claimed.piece, current->columns->claim());
  } else if (!current->is_whole) {
    return current->stream->next(chunk);
  }
  return Status();
}

Result<bool> TextSource::State::claim(TextChunk& chunk, Claim& claimed) {
  while (current != nullptr || next_input < paths.size()) {
    if (current == nullptr) MEG_RETURN_IF_ERROR(open_next_input());
    claimed = {.input = current, .range = {}, .piece = {}};
    chunk.lines = {};
    chunk.records.clear();
    MEG_RETURN_IF_ERROR(take_documents(chunk, claimed));
    // Content that this thread reads after the mutex is given back.
    const bool is_left =
        current->is_whole || claimed.piece != nullptr || claimed.range.end > claimed.range.begin;
    const bool has_any = is_left || !chunk.lines.empty() || !chunk.records.empty();
    // A whole file is used up by its claim.
    if (current->is_whole || !has_any) current = nullptr;
    if (!has_any) continue;
    chunk.input = static_cast<int>(next_input) - 1;
    chunk.number = next_number++;
    return true;
  }
  return false;
}

Result<TextSource> TextSource::open(const std::vector<std::string>& inputs, size_t chunk_bytes,
                                    const InputOptions& options,
                                    const std::vector<std::string>& keys) {
  MEG_RETURN_IF_ERROR(check_input_options(options, keys));
  auto state = std::make_unique<State>();
  state->chunk_bytes = chunk_bytes;
  state->options = options;
  state->keys = keys;
  MEG_ASSIGN_OR_RETURN(InputPaths found, resolve_inputs(inputs));
  state->paths = std::move(found.files);
  state->notes = std::move(found.notes);
  note_idle_options(options, state->paths, state->notes);
  std::vector<InputSize> sizes;
  for (const std::string& path : state->paths) {
    const Status added = state->add_input(path, sizes);
    const bool is_content =
        added.code() == StatusCode::kUnsupported || added.code() == StatusCode::kCorruption;
    MEG_RETURN_IF_ERROR(is_content ? with_pattern(added, path, state->paths) : added);
  }
  if (options.shard.count > 1) MEG_RETURN_IF_ERROR(state->keep_shard(sizes));
  for (const std::string& path : state->paths) {
    state->names.push_back(path == kStandardInput ? "standard input" : path);
  }
  return TextSource(std::move(state));
}

TextSource::TextSource(std::unique_ptr<State> state) : state_(std::move(state)) {}

TextSource::TextSource(TextSource&&) noexcept = default;
TextSource& TextSource::operator=(TextSource&&) noexcept = default;
TextSource::~TextSource() = default;

Result<bool> TextSource::next(TextChunk& chunk) {
  Claim claimed;
  chunk.error = Status();
  {
    const std::lock_guard lock(state_->mutex);
    Result<bool> more = state_->claim(chunk, claimed);
    if (!more.has_value()) {
      // The number of the chunk that failed puts the error in its place among others; nothing is
      // handed out after it.
      chunk.number = state_->next_number++;
      state_->current = nullptr;
      state_->next_input = state_->paths.size();
    }
    if (!more.has_value() || !*more) return more;
  }
  OpenInput& input = *claimed.input;
  if (claimed.piece != nullptr) {
    MEG_RETURN_IF_ERROR(input.columns->read(*claimed.piece, chunk));
  } else if (input.is_whole) {
    MEG_RETURN_IF_ERROR(input.stream->rest(chunk));
  } else if (claimed.range.end > claimed.range.begin) {
    MEG_RETURN_IF_ERROR(read_range(*input.file, claimed.range, state_->chunk_bytes, chunk));
  }
  return true;
}

Result<int64_t> TextSource::lines_before(int input) const {
  const auto index = static_cast<size_t>(input);
  // A shard from the middle of a file: its lines are numbered from the file's begin, which nobody
  // has read yet.
  if (state_->parts.empty() || state_->parts[index].begin == 0) return int64_t{0};
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file,
                       InputFile::open(state_->paths[index]));
  FileCutter cutter(*file, {0, state_->parts[index].begin}, state_->chunk_bytes);
  TextChunk chunk;
  for (int64_t lines = 0;;) {
    MEG_ASSIGN_OR_RETURN(const ByteRange range, cutter.next());
    if (range.begin == range.end) return lines;
    MEG_RETURN_IF_ERROR(read_range(*file, range, state_->chunk_bytes, chunk));
    std::string_view line;
    while (text::take_line(chunk.lines, line)) ++lines;
  }
}

Status TextSource::start_at(int input, int64_t offset) {
  if (input >= std::ssize(state_->paths) && offset > 0) {
    return make_error(StatusCode::kCorruption, "cannot continue in input {} of {}", input,
                      state_->paths.size());
  }
  state_->next_input = static_cast<size_t>(input);
  state_->start = offset;
  return Status();
}

void TextSource::interrupt() { state_->interrupted = true; }

int64_t TextSource::total_bytes() const { return state_->total_bytes; }

bool TextSource::has_pipe() const { return state_->has_pipe; }

const std::vector<std::string>& TextSource::paths() const { return state_->paths; }

const std::vector<std::string>& TextSource::names() const { return state_->names; }

const std::string& TextSource::shared_inputs() const { return state_->shared_inputs; }

const std::vector<std::string>& TextSource::notes() const { return state_->notes; }

}  // namespace meg::preprocess
