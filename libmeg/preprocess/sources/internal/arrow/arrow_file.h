#pragma once

#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/sources/internal/arrow/column_texts.h"
#include "libmeg/preprocess/sources/internal/column_reader.h"
#include "libmeg/preprocess/sources/internal/input_file.h"

namespace meg::preprocess {

/// A column of a schema, or what is inside its structs.
struct ColumnPath {
  int column = 0;
  std::vector<std::string> fields;  ///< names that lead from the column to it
};

/// A file as groups of record batches, whatever its format.
class ArrowFile {
 public:
  virtual ~ArrowFile() = default;

  /// file: must outlive it.
  static Result<std::unique_ptr<ArrowFile>> open(const InputFile& file, ColumnFormat format);

  virtual const arrow::Schema& schema() const = 0;
  virtual int64_t groups() const = 0;

  /// The sizes that the file states for a group.
  struct GroupSize {
    int64_t rows;
    int64_t bytes;  ///< of these columns, before their values are looked up in dictionaries
  };

  /// columns: of the schema. nullopt if only reading decides.
  virtual std::optional<GroupSize> size(int64_t group,
                                        const std::vector<ColumnPath>& columns) const = 0;

  /// Begins reading a group's batches, of about `batch_bytes`, with only these of the schema's
  /// columns, which hold texts and then are the batch's, in this order.
  virtual Status open_group(int64_t group, const std::vector<ColumnPath>& columns,
                            int64_t batch_bytes) = 0;

  /// Its next batch; nullopt at the end. The texts are there until the next call.
  virtual Result<std::optional<TextRows>> next() = 0;
};

}  // namespace meg::preprocess
