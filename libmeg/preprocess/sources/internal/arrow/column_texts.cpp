#include "libmeg/preprocess/sources/internal/arrow/column_texts.h"

#include <arrow/type.h>
#include <arrow/type_traits.h>

#include <utility>

namespace meg::preprocess {
namespace {

/// Bytes that are not declared as UTF-8 are texts as well: many writers of Parquet leave it
/// out. The documents' reader checks the bytes of either.
bool holds_text(const arrow::DataType& type) {
  return arrow::is_binary_like(type.id()) || arrow::is_large_binary_like(type.id()) ||
         arrow::is_binary_view_like(type.id());
}

bool is_list(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST;
}

std::shared_ptr<arrow::Array> elements_of(const std::shared_ptr<arrow::Array>& column) {
  if (column->type_id() == arrow::Type::LIST) {
    return static_cast<const arrow::ListArray&>(*column).values();
  }
  if (column->type_id() == arrow::Type::LARGE_LIST) {
    return static_cast<const arrow::LargeListArray&>(*column).values();
  }
  return column;
}

/// The elements [begin, end) of a list.
std::pair<int64_t, int64_t> extent(const arrow::Array& lists, int64_t row) {
  const auto of = [row](const auto& array) {
    return std::pair<int64_t, int64_t>(array.value_offset(row), array.value_offset(row + 1));
  };
  if (lists.type_id() == arrow::Type::LIST) return of(static_cast<const arrow::ListArray&>(lists));
  return of(static_cast<const arrow::LargeListArray&>(lists));
}

}  // namespace

bool TextArray::takes(const arrow::DataType& type) {
  if (type.id() != arrow::Type::DICTIONARY) return holds_text(type);
  return holds_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
}

TextArray::TextArray(const arrow::Array& array) : array_(array), texts_(&array) {
  if (array.type_id() != arrow::Type::DICTIONARY) return;
  indices_ = static_cast<const arrow::DictionaryArray*>(&array);
  texts_ = indices_->dictionary().get();
}

std::optional<std::string_view> TextArray::at(int64_t row) const {
  if (array_.IsNull(row)) return std::nullopt;
  if (indices_ == nullptr) return text(row);
  // Both a place of the row and the dictionary's entry may be null.
  const int64_t index = indices_->GetValueIndex(row);
  if (texts_->IsNull(index)) return std::nullopt;
  return text(index);
}

// Arrays of strings are arrays of bytes.
std::string_view TextArray::text(int64_t index) const {
  if (arrow::is_large_binary_like(texts_->type_id())) {
    return static_cast<const arrow::LargeBinaryArray*>(texts_)->GetView(index);
  }
  if (arrow::is_binary_like(texts_->type_id())) {
    return static_cast<const arrow::BinaryArray*>(texts_)->GetView(index);
  }
  return static_cast<const arrow::BinaryViewArray*>(texts_)->GetView(index);
}

bool TextColumn::takes(const arrow::DataType& type) {
  return TextArray::takes(is_list(type) ? *type.field(0)->type() : type);
}

TextColumn::TextColumn(std::shared_ptr<arrow::Array> column)
    : column_(std::move(column)), elements_(elements_of(column_)), texts_(*elements_) {}

TextColumn::TextColumn(std::vector<std::optional<std::string_view>> texts)
    : views_(std::move(texts)) {}

RowValue::Kind TextColumn::append_texts(int64_t row, std::vector<std::string_view>& texts) const {
  if (column_ != nullptr && column_->IsNull(row)) return RowValue::Kind::kNull;
  if (elements_ == column_) {
    const std::optional<std::string_view> text =
        texts_.has_value() ? texts_->at(row) : views_[static_cast<size_t>(row)];
    if (!text.has_value()) return RowValue::Kind::kNull;
    texts.push_back(*text);
    return RowValue::Kind::kText;
  }
  const auto [begin, end] = extent(*column_, row);
  for (int64_t at = begin; at < end; ++at) {
    const std::optional<std::string_view> text = texts_->at(at);
    // The row is refused for its null; the texts that were appended before it do no harm.
    if (!text.has_value()) return RowValue::Kind::kListWithNull;
    texts.push_back(*text);
  }
  return RowValue::Kind::kList;
}

}  // namespace meg::preprocess
