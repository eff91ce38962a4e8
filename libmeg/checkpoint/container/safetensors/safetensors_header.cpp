#include "libmeg/checkpoint/container/safetensors/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/json/internal/json_string.h"
#include "libmeg/checkpoint/container/json/json_object.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"

namespace meg::checkpoint {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr size_t kAlignment = 8;
constexpr uint64_t kMaxDataBytes = uint64_t{1} << 62;

struct TypeName {
  std::string_view name;
  DType dtype;
};

/// The order is that in which the reference implementation writes tensors: its types, last one
/// first.
constexpr TypeName kTypes[] = {
    {"U64", DType::kUint64},         {"I64", DType::kInt64},     {"F64", DType::kFloat64},
    {"C64", DType::kComplex64},      {"F32", DType::kFloat32},   {"U32", DType::kUint32},
    {"I32", DType::kInt32},          {"BF16", DType::kBFloat16}, {"F16", DType::kFloat16},
    {"U16", DType::kUint16},         {"I16", DType::kInt16},     {"F8_E4M3", DType::kFloat8E4m3fn},
    {"F8_E5M2", DType::kFloat8E5m2}, {"I8", DType::kInt8},       {"U8", DType::kUint8},
    {"BOOL", DType::kBool}};

/// Types of the format that libmeg has no word for.
constexpr std::string_view kOtherTypes[] = {"F4",      "F6_E2M3",     "F6_E3M2",
                                            "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};

/// Bytes of the elements; nullopt where they cannot be counted in 63 bits.
std::optional<uint64_t> tensor_bytes(DType dtype, const std::vector<int64_t>& shape) {
  auto bytes = static_cast<uint64_t>(dtype_size(dtype));
  bool is_empty = false;
  for (const int64_t size : shape) {
    is_empty |= size == 0;
    // Zeros are left out of the product, so that [2^62, 2^62, 0] is refused whatever the order.
    if (size > 0 && !checked_multiply(bytes, static_cast<uint64_t>(size), &bytes)) {
      return std::nullopt;
    }
  }
  if (bytes > kMaxDataBytes) return std::nullopt;
  return is_empty ? 0 : bytes;
}

/// Reads one header; errors name the file and the tensor.
///
/// A header's claims are checked in full before any of them is used: the three fields and no other,
/// the size that type and shape give, and all tensors together as a cover of the data without gaps
/// or overlaps.
class HeaderParser {
 public:
  HeaderParser(uint64_t data_bytes, const std::string& name)
      : data_bytes_(data_bytes), name_(name) {}

  Result<SafetensorsHeader> parse(std::string_view json);

 private:
  Status read_metadata(const simdjson::dom::element& value);
  Status read_tensor(std::string_view key, const simdjson::dom::element& value);
  Status read_dtype(const simdjson::dom::element& value, const std::string& where);
  Status read_shape(const simdjson::dom::element& value, const std::string& where);
  Status read_offsets(const simdjson::dom::element& value, const std::string& where);
  Status check_size(const std::string& where);
  Status check_cover();

  uint64_t data_bytes_;
  const std::string& name_;
  SafetensorsHeader header_;
  SafetensorsTensor tensor_;  // in the making
  uint64_t end_ = 0;          // of its data_offsets
};

Status wrong(const std::string& where, std::string_view expected,
             const simdjson::dom::element& found) {
  return make_error(StatusCode::kCorruption, "{}: expected {}, found {}", where, expected,
                    json_value_text(found));
}

Result<SafetensorsHeader> HeaderParser::parse(std::string_view json) {
  // The format says so, although JSON would allow whitespace in front.
  if (!json.starts_with('{')) {
    return make_error(StatusCode::kCorruption, "{}: byte {}: header: expected {{, found {}", name_,
                      kSafetensorsLengthBytes, text::printable(json.substr(0, 1)));
  }
  simdjson::dom::parser parser;
  const std::string where = name_ + ": header";
  MEG_ASSIGN_OR_RETURN(const simdjson::dom::object root, parse_json_object(&parser, json, where));
  MEG_RETURN_IF_ERROR(for_each_member(
      root, where, [&](std::string_view key, const simdjson::dom::element& value) -> Status {
        return key == kMetadata ? read_metadata(value) : read_tensor(key, value);
      }));
  MEG_RETURN_IF_ERROR(check_cover());
  return std::move(header_);
}

Status HeaderParser::read_metadata(const simdjson::dom::element& value) {
  const std::string where = fmt::format("{}: header: {}", name_, kMetadata);
  simdjson::dom::object members;
  if (value.get(members) != simdjson::SUCCESS) return wrong(where, "an object", value);
  return for_each_member(
      members, where, [&](std::string_view key, const simdjson::dom::element& text) -> Status {
        std::string_view found;
        if (text.get(found) != simdjson::SUCCESS) {
          return wrong(fmt::format("{}: {}", where, text::printable(key, 200)), "a text", text);
        }
        header_.metadata.emplace_back(key, found);
        return Status();
      });
}

Status HeaderParser::read_tensor(std::string_view key, const simdjson::dom::element& value) {
  const std::string where = fmt::format("{}: header: {}", name_, text::printable(key, 200));
  simdjson::dom::object members;
  if (value.get(members) != simdjson::SUCCESS) return wrong(where, "an object", value);
  tensor_ = {};
  tensor_.name = key;
  int fields = 0;
  MEG_RETURN_IF_ERROR(for_each_member(
      members, where, [&](std::string_view field, const simdjson::dom::element& of) -> Status {
        ++fields;
        if (field == "dtype") return read_dtype(of, where);
        if (field == "shape") return read_shape(of, where);
        if (field == "data_offsets") return read_offsets(of, where);
        return make_error(StatusCode::kCorruption,
                          "{}: expected dtype, shape and data_offsets, found {}", where,
                          text::printable(field, 200));
      }));
  if (fields != 3) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected dtype, shape and data_offsets, found {} of them", where,
                      fields);
  }
  MEG_RETURN_IF_ERROR(check_size(where));
  header_.tensors.push_back(std::move(tensor_));
  return Status();
}

Status HeaderParser::read_dtype(const simdjson::dom::element& value, const std::string& where) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return wrong(where + ": dtype", "a text", value);
  const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                         [&](const TypeName& type) { return type.name == text; });
  if (found != std::end(kTypes)) {
    tensor_.dtype = found->dtype;
    return Status();
  }
  const bool is_known =
      std::find(std::begin(kOtherTypes), std::end(kOtherTypes), text) != std::end(kOtherTypes);
  return make_error(is_known ? StatusCode::kUnsupported : StatusCode::kCorruption,
                    "{}: dtype: expected a type that libmeg reads, found {}", where,
                    text::printable(text));
}

Status HeaderParser::read_shape(const simdjson::dom::element& value, const std::string& where) {
  simdjson::dom::array sizes;
  if (value.get(sizes) != simdjson::SUCCESS) return wrong(where + ": shape", "a list", value);
  for (const simdjson::dom::element size : sizes) {
    int64_t found = 0;
    if (size.get(found) != simdjson::SUCCESS || found < 0) {
      return wrong(where + ": shape", "sizes of at least 0", size);
    }
    tensor_.shape.push_back(found);
  }
  return Status();
}

Status HeaderParser::read_offsets(const simdjson::dom::element& value, const std::string& where) {
  simdjson::dom::array ends;
  const bool is_pair = value.get(ends) == simdjson::SUCCESS && ends.size() == 2;
  if (!is_pair || ends.at(0).get(tensor_.begin) != simdjson::SUCCESS ||
      ends.at(1).get(end_) != simdjson::SUCCESS) {
    return make_error(StatusCode::kCorruption,
                      "{}: data_offsets: expected two numbers of at least 0, found {}", where,
                      text::printable(simdjson::to_string(value), 60));
  }
  if (tensor_.begin <= end_ && end_ <= data_bytes_) return Status();
  return make_error(
      StatusCode::kCorruption,
      "{}: data_offsets: expected a range within the file's {} data bytes, found [{}, {}]", where,
      data_bytes_, tensor_.begin, end_);
}

Status HeaderParser::check_size(const std::string& where) {
  const std::optional<uint64_t> expected = tensor_bytes(tensor_.dtype, tensor_.shape);
  const uint64_t found = end_ - tensor_.begin;
  tensor_.bytes = found;
  if (expected == found) return Status();
  return make_error(StatusCode::kCorruption,
                    "{}: data_offsets: expected {} bytes for {} [{}], found {}", where,
                    expected ? std::to_string(*expected) : "countable", dtype_name(tensor_.dtype),
                    fmt::join(tensor_.shape, ", "), found);
}

/// All data must belong to tensors: bytes that no tensor names could hide another file.
Status HeaderParser::check_cover() {
  std::vector<SafetensorsTensor>& tensors = header_.tensors;
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
                     // Empty tensors come before the one that begins at the same byte.
                     return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
                   });
  uint64_t covered = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin != covered) {
      return make_error(StatusCode::kCorruption,
                        "{}: header: {}: data_offsets: expected to begin at {}, where the previous "
                        "tensor ends, found {}",
                        name_, text::printable(tensor.name, 200), covered, tensor.begin);
    }
    covered += tensor.bytes;
  }
  if (covered == data_bytes_) return Status();
  return make_error(StatusCode::kCorruption, "{}: expected {} bytes after the header, found {}",
                    name_, covered, data_bytes_);
}

/// The place of a type in kTypes; their number for a type that the format does not have.
size_t type_order(DType dtype) {
  const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                         [&](const TypeName& type) { return type.dtype == dtype; });
  return static_cast<size_t>(found - std::begin(kTypes));
}

Status check_names(std::span<const SafetensorsTensor> tensors) {
  std::unordered_set<std::string_view> seen;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.name == kMetadata ||
        text::find_invalid_utf8(tensor.name) != std::string_view::npos ||
        !seen.insert(tensor.name).second) {
      return make_error(StatusCode::kInvalidArgument,
                        "safetensors: expected names in UTF-8, each once, found {}",
                        text::printable(tensor.name, 200));
    }
    if (type_order(tensor.dtype) == std::size(kTypes)) {
      return make_error(StatusCode::kUnsupported, "safetensors: {}: the format has no type {}",
                        text::printable(tensor.name, 200), dtype_name(tensor.dtype));
    }
  }
  return Status();
}

/// The indices of tensors in the order in which they are written.
std::vector<size_t> written_order(std::span<const SafetensorsTensor> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    // The widest types first, so that every tensor begins at a multiple of its element without
    // padding.
    return std::pair(type_order(tensors[i].dtype), std::string_view(tensors[i].name));
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

std::string metadata_json(std::span<const std::pair<std::string, std::string>> metadata) {
  std::string members;
  for (const auto& [key, value] : metadata) {
    members +=
        fmt::format("{}{}:{}", members.empty() ? "" : ",", json_string(key), json_string(value));
  }
  return fmt::format("{}:{{{}}}", json_string(kMetadata), members);
}

std::string tensor_json(const SafetensorsTensor& tensor, uint64_t begin, uint64_t end) {
  return fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                     json_string(tensor.name), kTypes[type_order(tensor.dtype)].name,
                     fmt::join(tensor.shape, ","), begin, end);
}

/// Adds the length before a header's text and spaces after it.
std::string framed(std::string json) {
  // Pad so that the data begin at a multiple of 8, and all tensors with them (written_order).
  json.append((kAlignment - json.size() % kAlignment) % kAlignment, ' ');
  std::string head(kSafetensorsLengthBytes, '\0');
  store_le(head.data(), static_cast<uint64_t>(json.size()));
  return head + json;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                                   const std::string& name) {
  return HeaderParser(data_bytes, name).parse(json);
}

Result<SafetensorsLayout> lay_out_safetensors(
    std::span<const SafetensorsTensor> tensors,
    std::span<const std::pair<std::string, std::string>> metadata) {
  MEG_RETURN_IF_ERROR(check_names(tensors));
  SafetensorsLayout layout;
  layout.offsets.resize(tensors.size());
  layout.bytes.resize(tensors.size());
  std::string json = metadata.empty() ? "" : metadata_json(metadata);
  uint64_t end = 0;
  for (const size_t i : written_order(tensors)) {
    const std::optional<uint64_t> bytes = tensor_bytes(tensors[i].dtype, tensors[i].shape);
    layout.offsets[i] = end;
    if (!bytes || !checked_add(end, *bytes, &end) || end > kMaxDataBytes) {
      return make_error(StatusCode::kOutOfRange, "safetensors: {}: more than {} bytes",
                        text::printable(tensors[i].name, 200), kMaxDataBytes);
    }
    layout.bytes[i] = *bytes;
    json += (json.empty() ? "" : ",") + tensor_json(tensors[i], layout.offsets[i], end);
  }
  layout.head = framed("{" + json + "}");
  for (uint64_t& offset : layout.offsets) offset += layout.head.size();
  layout.file_size = layout.head.size() + end;
  return layout;
}

}  // namespace meg::checkpoint
