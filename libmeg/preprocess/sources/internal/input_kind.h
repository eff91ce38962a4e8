#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/sources/input_options.h"
#include "libmeg/preprocess/sources/internal/column_reader.h"
#include "libmeg/preprocess/sources/internal/input_file.h"

namespace meg::preprocess {

inline constexpr std::string_view kJsonWhitespace = " \t\r\n";

/// The kind of a file, judged by its first bytes.
struct InputKind {
  ColumnFormat columns = ColumnFormat::kNone;
  bool is_compressed = false;
  std::string first_byte;  ///< that is no JSON whitespace, if there is one; not of compressed files
  bool has_lines = false;  ///< so that it can be cut without reading all of it
};

/// kUnsupported if content with this beginning is in an unsupported encoding or container.
Status check_readable(const std::string& name, std::string_view begin);

/// range: of the file's content. Errors: kCorruption where the name says that it holds columns and
/// the content does not, those of check_readable.
Result<InputKind> kind_of(const InputFile& file, ByteRange range, const InputOptions& options);

/// Whether a path on this machine is that of a pipe or a device. It must not be opened only to look
/// at it: closing it again would end its writer.
bool is_pipe(const std::string& path);

/// What is known of an input before it is read.
struct InputSize {
  int64_t bytes = -1;    ///< of its content; -1 where unknown
  ByteRange range = {};  ///< of what is read at offsets, packed or not
  bool is_pipe = false;
};

/// Checks what can be checked before reading.
Result<InputSize> check_input(const std::string& path, const InputOptions& options);

/// What a shard has of a file whose bytes are those of the whole run from `before` on; nullopt
/// where it has nothing. Of columns the range is one of row groups. run_bytes: of all files.
Result<std::optional<ByteRange>> part_of_shard(const std::string& path, const InputSize& size,
                                               int64_t before, int64_t run_bytes,
                                               const InputOptions& options);

}  // namespace meg::preprocess
