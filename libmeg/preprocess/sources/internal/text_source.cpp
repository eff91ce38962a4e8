#include "libmeg/preprocess/sources/internal/text_source.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <utility>

#include "libmeg/io/file_descriptor.h"
#include "libmeg/preprocess/sources/internal/text_reader.h"

namespace meg::preprocess {
namespace {

constexpr const char* kStandardInput = "-";

bool exists(const std::string& path) {
  struct stat info {};

  return ::lstat(path.c_str(), &info) == 0;
}

/// Appends the files that `pattern` names, or `pattern` itself where it is no pattern.
Status append_matches(const std::string& pattern, std::vector<std::string>& paths) {
  const bool is_literal = pattern.find_first_of("*?[") == std::string::npos;
  if (is_literal || exists(pattern)) {
    paths.push_back(pattern);
    return Status();
  }
  glob_t matches{};
  const int failed = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  const size_t first = paths.size();
  for (size_t i = 0; failed == 0 && i < matches.gl_pathc; ++i) {
    paths.emplace_back(matches.gl_pathv[i]);
  }
  ::globfree(&matches);
  std::sort(paths.begin() + static_cast<std::ptrdiff_t>(first), paths.end());
  if (paths.size() > first) return Status();
  return make_error(StatusCode::kNotFound, "{}: no file matches this pattern", pattern);
}

Result<io::FileDescriptor> open_input(const std::string& path) {
  if (path != kStandardInput) return io::FileDescriptor::open_for_reading(path);
  const int fd = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return errno_error(errno, "standard input");
  return io::FileDescriptor(fd, "standard input");
}

/// kUnsupported where the first bytes of an input are those of a compressed file.
Status refuse_compressed(std::string_view begin, const std::string& name) {
  struct Magic {
    std::string_view bytes;
    std::string_view format;
  };

  constexpr std::string_view kXz("\xfd\x37zXZ\0", 6);
  constexpr std::array<Magic, 3> kMagics{
      {{"\x1f\x8b", "gzip"}, {"\x28\xb5\x2f\xfd", "zstd"}, {kXz, "xz"}}};
  for (const Magic& magic : kMagics) {
    if (!begin.starts_with(magic.bytes)) continue;
    return make_error(StatusCode::kUnsupported,
                      "{}: expected JSON lines, found {} data: decompress it and pipe it in", name,
                      magic.format);
  }
  return Status();
}

/// Where an input's bytes are: [begin, end) of a regular file, else unknown.
Result<std::optional<ByteRange>> extent(const io::FileDescriptor& file) {
  struct stat info {};

  if (::fstat(file.get(), &info) != 0) return errno_error(errno, file.path());
  if (S_ISDIR(info.st_mode)) return errno_error(EISDIR, file.path());
  if (!S_ISREG(info.st_mode)) return std::optional<ByteRange>();
  const int64_t begin = ::lseek(file.get(), 0, SEEK_CUR);  // Not 0 only for standard input.
  const int64_t end = info.st_size;
  return std::optional<ByteRange>({std::min(begin, end), end});
}

/// Checks what can be checked before reading; returns the input's bytes, -1 where unknown.
Result<int64_t> check_input(const std::string& path) {
  struct stat info {};

  if (path != kStandardInput) {
    if (::stat(path.c_str(), &info) != 0) return errno_error(errno, path);
    const bool is_pipe = !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
    if (is_pipe && ::access(path.c_str(), R_OK) != 0) return errno_error(errno, path);
    if (is_pipe) return int64_t{-1};  // Opening a pipe and closing it again would end its writer.
  }
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, open_input(path));
  MEG_ASSIGN_OR_RETURN(const auto range, extent(file));
  if (!range.has_value()) return int64_t{-1};
  std::array<char, 8> begin{};
  MEG_ASSIGN_OR_RETURN(const size_t got,
                       file.read_at(range->begin, std::as_writable_bytes(std::span(begin))));
  MEG_RETURN_IF_ERROR(refuse_compressed({begin.data(), got}, file.path()));
  return range->end - range->begin;
}

/// An input whose turn it is: either cut or streamed.
struct OpenInput {
  explicit OpenInput(io::FileDescriptor opened) : file(std::move(opened)) {}

  io::FileDescriptor file;
  std::optional<FileCutter> cutter;
  std::optional<StreamReader> stream;
};

}  // namespace

struct TextSource::State {
  Status open_next_input();
  Result<bool> claim(TextChunk& chunk, std::shared_ptr<OpenInput>& input, ByteRange& range);

  size_t chunk_bytes = 0;
  int64_t total_bytes = 0;
  std::vector<std::string> paths;
  std::vector<std::string> names;

  std::atomic<bool> interrupted = false;
  std::mutex mutex;  // guards what follows
  size_t next_input = 0;
  int64_t next_number = 0;
  std::shared_ptr<OpenInput> current;  // shared with the threads that read from it
};

Status TextSource::State::open_next_input() {
  MEG_ASSIGN_OR_RETURN(io::FileDescriptor file, open_input(paths[next_input]));
  ++next_input;
  MEG_ASSIGN_OR_RETURN(const auto range, extent(file));
  current = std::make_shared<OpenInput>(std::move(file));
  // Files of the kernel (/proc) say that they are empty, and are not.
  if (range.has_value() && range->end > range->begin) {
    current->cutter.emplace(current->file, *range, chunk_bytes);
  } else {
    current->stream.emplace(current->file, chunk_bytes, interrupted);
  }
  return Status();
}

/// Claims the next run of lines. A cut file's run is left to be read (`range`); a stream's is read.
Result<bool> TextSource::State::claim(TextChunk& chunk, std::shared_ptr<OpenInput>& input,
                                      ByteRange& range) {
  while (current != nullptr || next_input < paths.size()) {
    if (current == nullptr) MEG_RETURN_IF_ERROR(open_next_input());
    chunk.lines = {};
    range = {};
    if (current->cutter) {
      MEG_ASSIGN_OR_RETURN(range, current->cutter->next());
    } else {
      MEG_RETURN_IF_ERROR(current->stream->next(chunk));
      const bool is_begin = chunk.offset == 0;
      if (is_begin) MEG_RETURN_IF_ERROR(refuse_compressed(chunk.lines, current->file.path()));
    }
    if (range.end > range.begin || !chunk.lines.empty()) {
      chunk.input = static_cast<int>(next_input) - 1;
      chunk.number = next_number++;
      input = current;
      return true;
    }
    current = nullptr;
  }
  return false;
}

Result<TextSource> TextSource::open(const std::vector<std::string>& inputs, size_t chunk_bytes) {
  auto state = std::make_unique<State>();
  state->chunk_bytes = chunk_bytes;
  for (const std::string& input : inputs) {
    MEG_RETURN_IF_ERROR(append_matches(input, state->paths));
  }
  if (std::count(state->paths.begin(), state->paths.end(), kStandardInput) > 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "standard input: expected once among the inputs, found again");
  }
  for (const std::string& path : state->paths) {
    MEG_ASSIGN_OR_RETURN(const int64_t bytes, check_input(path));
    const bool is_known = bytes >= 0 && state->total_bytes >= 0;
    state->total_bytes = is_known ? state->total_bytes + bytes : -1;
    state->names.push_back(path == kStandardInput ? "standard input" : path);
  }
  return TextSource(std::move(state));
}

TextSource::TextSource(std::unique_ptr<State> state) : state_(std::move(state)) {}

TextSource::TextSource(TextSource&&) noexcept = default;
TextSource& TextSource::operator=(TextSource&&) noexcept = default;
TextSource::~TextSource() = default;

Result<bool> TextSource::next(TextChunk& chunk) {
  std::shared_ptr<OpenInput> input;
  ByteRange range;
  {
    const std::lock_guard lock(state_->mutex);
    Result<bool> claimed = state_->claim(chunk, input, range);
    if (!claimed.has_value()) {
      state_->current = nullptr;
      state_->next_input = state_->paths.size();
    }
    if (!claimed.has_value() || !*claimed) return claimed;
  }
  if (range.end == range.begin) return true;
  MEG_RETURN_IF_ERROR(read_range(input->file, range, state_->chunk_bytes, chunk));
  return true;
}

void TextSource::interrupt() { state_->interrupted = true; }

int64_t TextSource::total_bytes() const { return state_->total_bytes; }

const std::vector<std::string>& TextSource::names() const { return state_->names; }

}  // namespace meg::preprocess
