#pragma once

#include <arrow/array.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "libmeg/preprocess/sources/internal/text_chunk.h"

namespace meg::preprocess {

/// The texts of an array of strings: string, large_string, string_view, or a dictionary of these.
class TextArray {
 public:
  static bool takes(const arrow::DataType& type);

  /// array: of a type that is taken; must outlive this.
  explicit TextArray(const arrow::Array& array);

  /// nullopt for null.
  std::optional<std::string_view> at(int64_t row) const;

 private:
  std::string_view text(int64_t index) const;

  const arrow::Array& array_;
  const arrow::Array* texts_;                        // the array itself, or its dictionary
  const arrow::DictionaryArray* indices_ = nullptr;  // of that dictionary
};

/// A column of texts or of lists of texts.
class TextColumn {
 public:
  static bool takes(const arrow::DataType& type);

  explicit TextColumn(std::shared_ptr<arrow::Array> column);

  /// Refers to texts stored elsewhere; nullopt for null.
  explicit TextColumn(std::vector<std::optional<std::string_view>> texts);

  /// Appends the row's texts and returns the kind of its value.
  RowValue::Kind append_texts(int64_t row, std::vector<std::string_view>& texts) const;

 private:
  std::vector<std::optional<std::string_view>> views_;  // where there is no array
  std::shared_ptr<arrow::Array> column_;
  std::shared_ptr<arrow::Array> elements_;  // the column itself, or all elements of its lists
  std::optional<TextArray> texts_;          // of elements_
};

/// Some rows of a file.
struct TextRows {
  int64_t count = 0;
  std::vector<TextColumn> columns;
};

}  // namespace meg::preprocess
