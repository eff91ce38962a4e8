#pragma once

#include <parquet/column_reader.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "libmeg/preprocess/sources/internal/arrow/column_texts.h"

namespace meg::preprocess {

/// A column of strings in a row group of Parquet, read directly from its pages.
///
/// Arrow's own way from a page to an array copies each text into memory that is new for each batch,
/// which costs as much as decompressing the page; chunks copy the texts anyway.
class PageTexts {
 public:
  /// column: of byte arrays, without lists or structs around them.
  explicit PageTexts(std::shared_ptr<parquet::ColumnReader> column);

  /// Up to `rows` rows, of one page; nullopt at the end. The texts are there until the next call.
  /// Throws as Parquet does.
  std::optional<TextRows> next(int64_t rows);

 private:
  std::shared_ptr<parquet::ColumnReader> column_;
  std::vector<int16_t> levels_;             // 1 where a row of a nullable column has a text
  std::vector<parquet::ByteArray> values_;  // of the rows that have one
};

}  // namespace meg::preprocess
