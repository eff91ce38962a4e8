#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/sources/internal/input_file.h"
#include "libmeg/preprocess/sources/internal/text_chunk.h"

namespace meg::preprocess {

/// Files of columns, whose documents are rows in groups.
enum class ColumnFormat {
  kNone,
  kParquet,
  kArrowFile,    ///< Also Feather version 2.
  kArrowStream,  ///< Written by Hugging Face's `datasets`; has no index of its record batches.
  kEncryptedParquet,
  kFeather1,
};

/// Bytes of a file's begin that column_format_of looks at.
inline constexpr size_t kColumnMagicBytes = 6;

/// The format by the first bytes of a file, whatever its name.
ColumnFormat column_format_of(std::string_view begin);

/// Whether ColumnReader reads such files, given the module that does.
bool is_column_format_read(ColumnFormat format);

/// The name of a format, for messages; `format` is not kNone.
std::string_view column_format_name(ColumnFormat format);

/// A row group that is a chunk of its own.
struct RowGroup {
  int64_t number = 0;
  int64_t rows = 0;
  int64_t offset = 0;  ///< rows of the selected groups before it
};

/// Reads the rows of one file, batch by batch. One thread at a time.
class ColumnReader {
 public:
  virtual ~ColumnReader() = default;

  /// file: read from its begin to its end, at offsets; must outlive the reader. keys: the names of
  /// the columns, which hold strings or lists of strings. chunk_bytes: text of a chunk, about.
  /// Errors (of this and the functions below; with the file's name): kUnsupported where the module
  /// with Arrow cannot be opened and for types that are no text, kNotFound for missing columns,
  /// kCorruption for damage, kResourceExhausted where batches need too much memory.
  static Result<std::unique_ptr<ColumnReader>> open(const InputFile& file, ColumnFormat format,
                                                    const std::vector<std::string>& keys,
                                                    size_t chunk_bytes);

  /// Row groups or record batches; 1 of a format without an index.
  virtual int64_t groups() const = 0;

  /// Makes next() begin with row `row` of those in groups [begin, end), and end after these. Called
  /// before next(). kCorruption if there is no such row.
  virtual Status select(int64_t begin, int64_t end, int64_t row) = 0;

  /// Fills the chunk except for number and input, with rows of one group; it has none at the end.
  virtual Status next(TextChunk& chunk) = 0;

  /// Skips the row group with which next() would begin if it is known to be small, so that another
  /// reader of this file can read it; nullopt otherwise.
  virtual Result<std::optional<RowGroup>> take_small_group() = 0;

  /// Fills the chunk as next(), with all rows of the group. Not of a reader whose next() is called.
  virtual Status read_group(const RowGroup& group, TextChunk& chunk) = 0;
};

/// Groups of a file, from its footer.
Result<int64_t> count_groups(const InputFile& file, ColumnFormat format);

}  // namespace meg::preprocess
