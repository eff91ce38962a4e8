#include "libmeg/preprocess/sources/internal/input_kind.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "libmeg/io/byte_stream.h"
#include "libmeg/preprocess/sources/internal/input_paths.h"
#include "libmeg/preprocess/sources/internal/text_reader.h"
#include "libmeg/s3/object_store.h"

// Decides by its first bytes what a file is, and only where these say nothing by its name. A
// content that is recognized but not read (UTF-16, bzip2, zip ...) is refused by its name: as JSON
// lines it would be millions of bad lines.

namespace meg::preprocess {
namespace {

Result<std::string> bytes_at(const InputFile& file, int64_t offset, size_t count) {
  std::string bytes(count, '\0');
  MEG_ASSIGN_OR_RETURN(const size_t got,
                       file.read_at(offset, std::as_writable_bytes(std::span(bytes))));
  bytes.resize(got);
  return bytes;
}

/// The first byte that is no JSON whitespace; empty where there is none.
/// An array or lines: whitespace before it may be long, hence windows. A file of nothing but
/// whitespace is read once.
Result<std::string> first_json_byte(const InputFile& file, ByteRange range) {
  constexpr size_t kWindow = size_t{64} << 10;
  for (int64_t at = range.begin; at < range.end; at += static_cast<int64_t>(kWindow)) {
    MEG_ASSIGN_OR_RETURN(const std::string bytes, bytes_at(file, at, kWindow));
    const size_t found = bytes.find_first_not_of(kJsonWhitespace);
    if (found != bytes.npos) return bytes.substr(found, 1);
  }
  return std::string();
}

/// What is not read, by bytes near its begin.
struct Foreign {
  size_t offset;
  std::string_view bytes;
  std::string_view says;
};

// The longer mark of UTF-32 in little endian begins with that of UTF-16, hence the text of the
// first row.
constexpr Foreign kForeign[] = {
    {0, "\xff\xfe", "UTF-16 or UTF-32: expected UTF-8"},
    {0, "\xfe\xff", "UTF-16: expected UTF-8"},
    {0, std::string_view("\0\0\xfe\xff", 4), "UTF-32: expected UTF-8"},
    {4, "1AY&SY", "bzip2 is not supported: decompress it"},
    {0, "\x04\x22\x4d\x18", "lz4 is not supported: decompress it"},
    {0, "PK\x03\x04", "zip is not supported: decompress it"},
    {0, "7z\xbc\xaf\x27\x1c", "7-Zip is not supported: decompress it"},
    {0, std::string_view("]\0\0", 3), ".lzma is not supported: decompress it"},
    {0, "LZIP\x01", "lzip is not supported: decompress it"},
    {0, "\x1f\x9d", ".Z (compress) is not supported: decompress it"},
    {257, "ustar", "tar is not supported: decompress it"},
};
constexpr size_t kForeignBytes = 262;

/// Whether a file that begins so has lines, which can be cut without reading all of it.
bool has_lines(const std::string& first_byte, InputFormat format, const InputOptions& options) {
  if (format == InputFormat::kCsv) return false;
  if (format == InputFormat::kTxt) return options.txt_document == TxtDocument::kLine;
  return first_byte != "[";
}

/// The groups of a file of `bytes` that begin in [first, last), as if all had one size.
ByteRange groups_between(int64_t groups, int64_t bytes, int64_t first, int64_t last) {
  const auto groups_before = [&](int64_t at) {
    int64_t group = 0;
    // Compute in 128 bits: bytes times groups overflows 64 for a large file.
    while (group < groups &&
           static_cast<int64_t>(static_cast<__int128>(bytes) * group / groups) < at) {
      ++group;
    }
    return group;
  };
  return {groups_before(first), groups_before(last)};
}

}  // namespace

Status check_readable(const std::string& name, std::string_view begin) {
  for (const Foreign& foreign : kForeign) {
    if (begin.substr(std::min(foreign.offset, begin.size())).starts_with(foreign.bytes)) {
      return make_error(StatusCode::kUnsupported, "{}: {}", name, foreign.says);
    }
  }
  return Status();
}

Result<InputKind> kind_of(const InputFile& file, ByteRange range, const InputOptions& options) {
  InputKind kind;
  MEG_ASSIGN_OR_RETURN(
      const std::string begin,
      bytes_at(file, range.begin,
               std::max({io::kCompressionMagicBytes, kColumnMagicBytes, kForeignBytes})));
  MEG_RETURN_IF_ERROR(check_readable(file.name(), begin));
  kind.is_compressed = io::compression_of(begin) != io::Compression::kNone;
  if (options.format == InputFormat::kAuto) {
    // A file that is read from its middle (standard input) cannot be one of columns, whose footer
    // counts from the begin.
    if (range.begin == 0) kind.columns = column_format_of(begin);
    if (kind.columns != ColumnFormat::kNone) return kind;
    if (is_named_as_columns(file.name())) {
      return make_error(StatusCode::kCorruption,
                        "{}: its name says Parquet or Arrow, but its first bytes do not{}",
                        file.name(), kind.is_compressed ? ": unpack it" : "");
    }
  }
  if (kind.is_compressed) return kind;
  MEG_ASSIGN_OR_RETURN(kind.first_byte, first_json_byte(file, range));
  kind.has_lines = has_lines(kind.first_byte, format_of(file.name(), options), options);
  return kind;
}

bool is_pipe(const std::string& path) {
  struct stat info {};

  return path != kStandardInput && !s3::is_address(path) && ::stat(path.c_str(), &info) == 0 &&
         !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

Result<InputSize> check_input(const std::string& path, const InputOptions& options) {
  if (is_pipe(path)) {
    if (::access(path.c_str(), R_OK) != 0) return errno_error(errno, path);
    return InputSize{.is_pipe = true};
  }
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file, InputFile::open(path));
  MEG_ASSIGN_OR_RETURN(const auto range, file->extent());
  if (!range.has_value()) return InputSize{.is_pipe = true};
  MEG_ASSIGN_OR_RETURN(const InputKind kind, kind_of(*file, *range, options));
  if (kind.is_compressed || kind.columns != ColumnFormat::kNone) return InputSize{.range = *range};
  return InputSize{.bytes = range->end - range->begin, .range = *range};
}

Result<std::optional<ByteRange>> part_of_shard(const std::string& path, const InputSize& size,
                                               int64_t before, int64_t run_bytes,
                                               const InputOptions& options) {
  const Shard& shard = options.shard;
  const auto begin_of = [&](int64_t index) {  // within the file
    // Boundaries are at equal bytes of all inputs together: each shard gets the same amount of
    // text, and every byte belongs to exactly one. They are moved to the next document's begin, by
    // the same rule on both sides.
    return static_cast<int64_t>(static_cast<__int128>(run_bytes) * index / shard.count) - before;
  };
  const bool is_last = shard.index + 1 == shard.count;
  const int64_t first = begin_of(shard.index);
  const int64_t last = begin_of(shard.index + 1);
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file, InputFile::open(path));
  MEG_ASSIGN_OR_RETURN(const InputKind kind, kind_of(*file, size.range, options));
  if (kind.columns != ColumnFormat::kNone) {
    MEG_ASSIGN_OR_RETURN(const int64_t groups, count_groups(*file, kind.columns));
    const int64_t end = is_last ? size.range.end : last;
    const ByteRange part = groups_between(groups, size.range.end, first, end);
    return part.begin < part.end ? std::optional(part) : std::nullopt;
  }
  // What cannot be cut (compressed, arrays, csv) belongs whole to the shard that its first byte is
  // in.
  if (!kind.has_lines) {
    const bool begins_here = first <= 0 && (last > 0 || is_last);
    return begins_here ? std::optional(size.range) : std::nullopt;
  }
  // The last line that begins in a shard belongs to it, however far it reaches.
  FileCutter cutter(*file, size.range, 1);
  ByteRange part = size.range;
  MEG_ASSIGN_OR_RETURN(part.begin, cutter.first_line_from(std::min(first, part.end)));
  if (last < part.end) {
    MEG_ASSIGN_OR_RETURN(part.end, cutter.first_line_from(last));
  }
  return part.begin < part.end ? std::optional(part) : std::nullopt;
}

}  // namespace meg::preprocess
