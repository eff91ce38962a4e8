#include "libmeg/preprocess/sources/internal/arrow/page_texts.h"

#include <utility>

namespace meg::preprocess {

PageTexts::PageTexts(std::shared_ptr<parquet::ColumnReader> column) : column_(std::move(column)) {}

std::optional<TextRows> PageTexts::next(int64_t rows) {
  levels_.resize(static_cast<size_t>(rows));
  values_.resize(static_cast<size_t>(rows));
  int64_t texts = 0;
  const int64_t read = static_cast<parquet::ByteArrayReader&>(*column_).ReadBatch(
      rows, levels_.data(), nullptr, values_.data(), &texts);
  if (read == 0) return std::nullopt;
  const bool is_nullable = column_->descr()->max_definition_level() > 0;
  std::vector<std::optional<std::string_view>> column;
  column.reserve(static_cast<size_t>(read));
  size_t next_value = 0;
  for (size_t row = 0; row < static_cast<size_t>(read); ++row) {
    if (is_nullable && levels_[row] == 0) {
      column.emplace_back();
      continue;
    }
    const parquet::ByteArray& value = values_[next_value++];
    column.emplace_back(std::string_view(reinterpret_cast<const char*>(value.ptr), value.len));
  }
  TextRows found{.count = read, .columns = {}};
  found.columns.emplace_back(std::move(column));
  return found;
}

}  // namespace meg::preprocess
