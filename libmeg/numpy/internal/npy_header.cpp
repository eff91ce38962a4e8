#include "libmeg/numpy/internal/npy_header.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "libmeg/base/bytes.h"
#include "libmeg/text/printable.h"

// numpy evaluates the header as a Python literal. This reads only what numpy writes there, a
// dictionary of three keys, and refuses the rest by name, so that no file can make it build
// anything. Sizes are believed only after they have been compared with the file's: a header that
// claims terabytes allocates nothing.

namespace meg::numpy {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxDimensions = 64;  // as numpy

/// The dtypes that plain arrays of numpy have.
constexpr DType kDtypes[] = {
    DType::kBool,    DType::kUint8,   DType::kInt8,      DType::kUint16,     DType::kInt16,
    DType::kUint32,  DType::kInt32,   DType::kUint64,    DType::kInt64,      DType::kFloat16,
    DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128,
};

std::optional<DType> dtype_of_descr(std::string_view descr) {
  for (const DType dtype : kDtypes) {
    if (descr == npy_descr(dtype)) return dtype;
    // Byte order means nothing for single bytes; numpy reads "<u1" too.
    if (dtype_size(dtype) == 1 && descr.starts_with('<') &&
        descr.substr(1) == npy_descr(dtype).substr(1)) {
      return dtype;
    }
  }
  return std::nullopt;
}

/// Reads the Python dictionary of a header: three keys in any order and spacing.
class DictionaryParser {
 public:
  DictionaryParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  /// Fills dtype and shape.
  Status parse(NpyHeader* header);

 private:
  template <class... Args>
  Status corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(StatusCode::kCorruption, "{}: header: {}", name_,
                      fmt::vformat(format, fmt::make_format_args(args...)));
  }

  Status expected(std::string_view what) const {
    return corrupt("character {}: expected {}, found {}", position_, what,
                   text::printable(text_.substr(position_), 20));
  }

  void skip_blanks() {
    position_ = std::min(text_.find_first_not_of(" \t\r\n", position_), text_.size());
  }

  /// Takes `token` where it is next.
  bool take(std::string_view token) {
    skip_blanks();
    if (!text_.substr(position_).starts_with(token)) return false;
    position_ += token.size();
    return true;
  }

  Result<std::string_view> read_string();
  Result<int64_t> read_dimension();
  Status read_entry(NpyHeader* header);
  Status read_descr(NpyHeader* header);
  Status read_order();
  Status read_shape(NpyHeader* header);

  std::string_view text_;
  const std::string& name_;
  size_t position_ = 0;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
  bool is_fortran_ = false;
};

Status DictionaryParser::parse(NpyHeader* header) {
  if (!take("{")) return expected("{");
  while (!take("}")) {
    MEG_RETURN_IF_ERROR(read_entry(header));
    if (take(",")) continue;
    if (!take("}")) return expected(", or }");
    break;
  }
  skip_blanks();
  if (position_ != text_.size()) return expected("its end");
  if (!has_descr_ || !has_order_ || !has_shape_) {
    return corrupt("expected descr, fortran_order and shape, found {}", text::printable(text_, 60));
  }
  // With at most one dimension both orders are the same.
  if (is_fortran_ && header->shape.size() > 1) {
    return make_error(StatusCode::kUnsupported, "{}: expected C order, found Fortran order", name_);
  }
  return Status();
}

Status DictionaryParser::read_entry(NpyHeader* header) {
  MEG_ASSIGN_OR_RETURN(const std::string_view key, read_string());
  bool* const seen = key == "descr"           ? &has_descr_
                     : key == "fortran_order" ? &has_order_
                     : key == "shape"         ? &has_shape_
                                              : nullptr;
  // Python's dictionary would let the last of two win; numpy writes each once, so two are damage.
  if (seen == nullptr || *seen) {
    return corrupt("expected descr, fortran_order and shape once each, found {}",
                   text::printable(key));
  }
  *seen = true;
  if (!take(":")) return expected(":");
  if (seen == &has_descr_) return read_descr(header);
  if (seen == &has_order_) return read_order();
  return read_shape(header);
}

/// A text in either kind of quotes, without escapes: no key and no plain type needs any.
Result<std::string_view> DictionaryParser::read_string() {
  skip_blanks();
  const char quote = position_ < text_.size() ? text_[position_] : '\0';
  if (quote != '\'' && quote != '"') return expected("a text in quotes");
  const size_t begin = position_ + 1;
  const size_t end = text_.find(quote, begin);
  const std::string_view found = text_.substr(begin, end - begin);
  if (end == std::string_view::npos || found.find('\\') != std::string_view::npos) {
    return expected("a text in quotes");
  }
  position_ = end + 1;
  return found;
}

Status DictionaryParser::read_descr(NpyHeader* header) {
  skip_blanks();
  if (text_.substr(position_).starts_with('[') || text_.substr(position_).starts_with('(')) {
    return make_error(StatusCode::kUnsupported, "{}: expected plain numbers, found structures",
                      name_);
  }
  MEG_ASSIGN_OR_RETURN(const std::string_view descr, read_string());
  const std::optional<DType> dtype = dtype_of_descr(descr);
  if (!dtype.has_value()) {
    return make_error(StatusCode::kUnsupported,
                      "{}: expected plain little-endian numbers, found numpy's type {}", name_,
                      text::printable(descr));
  }
  header->dtype = *dtype;
  return Status();
}

Status DictionaryParser::read_order() {
  is_fortran_ = take("True");
  return is_fortran_ || take("False") ? Status() : expected("True or False");
}

Status DictionaryParser::read_shape(NpyHeader* header) {
  if (!take("(")) return expected("(");
  bool comma = true;
  while (!take(")")) {
    if (!comma) return expected(", or )");
    if (header->shape.size() == kMaxDimensions) {
      return corrupt("expected at most {} dimensions, found more", kMaxDimensions);
    }
    MEG_ASSIGN_OR_RETURN(const int64_t size, read_dimension());
    header->shape.push_back(size);
    comma = take(",");
  }
  // Python reads (7) as a number.
  return header->shape.size() == 1 && !comma ? expected("a comma in the shape") : Status();
}

Result<int64_t> DictionaryParser::read_dimension() {
  skip_blanks();
  int64_t size = 0;
  const char* const begin = text_.data() + position_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
  if (error != std::errc()) return expected("a dimension");
  // As in Python, a number has no zeros in front.
  const bool is_plain = end - begin == 1 || *begin != '0';
  if (size < 0 || *begin == '-' || !is_plain) return expected("a dimension");
  position_ += static_cast<size_t>(end - begin);
  return size;
}

/// Bytes of the elements; nullopt where their number does not fit.
std::optional<uint64_t> count_elements(NpyHeader* header) {
  uint64_t elements = 1;
  // A product with a zero in it is zero, however large the rest is.
  for (const int64_t size : header->shape) {
    if (size == 0) {
      header->elements = 0;
      return 0;
    }
  }
  for (const int64_t size : header->shape) {
    if (!checked_multiply(elements, static_cast<uint64_t>(size), &elements)) return std::nullopt;
  }
  uint64_t bytes = 0;
  if (!checked_multiply(elements, static_cast<uint64_t>(dtype_size(header->dtype)), &bytes) ||
      bytes > static_cast<uint64_t>(INT64_MAX)) {
    return std::nullopt;
  }
  header->elements = static_cast<int64_t>(elements);
  return bytes;
}

/// The dictionary's text; `reader` stands after it then.
Result<std::string_view> read_dictionary(ByteReader* reader, const std::string& name) {
  MEG_ASSIGN_OR_RETURN(const auto magic, reader->read_bytes(kMagic.size(), "magic"));
  const std::string_view found(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (found != kMagic) {
    return make_error(StatusCode::kCorruption, "{}: byte 0: magic: expected {}, found {}", name,
                      text::printable(kMagic), text::printable(found));
  }
  MEG_ASSIGN_OR_RETURN(const auto major, reader->read<uint8_t>("version"));
  MEG_ASSIGN_OR_RETURN(const auto minor, reader->read<uint8_t>("version"));
  if (major < 1 || major > 3 || minor != 0) {
    return make_error(StatusCode::kUnsupported,
                      "{}: byte {}: version: expected 1.0, 2.0 or 3.0, found {}.{}", name,
                      kMagic.size(), major, minor);
  }
  uint64_t length = 0;
  // Version 2.0 exists for headers beyond 64 KiB, 3.0 for names outside Latin-1; both have a length
  // of four bytes.
  if (major == 1) {
    MEG_ASSIGN_OR_RETURN(length, reader->read<uint16_t>("header length"));
  } else {
    MEG_ASSIGN_OR_RETURN(length, reader->read<uint32_t>("header length"));
  }
  MEG_ASSIGN_OR_RETURN(const auto text, reader->read_bytes(length, "header"));
  return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

}  // namespace

std::string_view npy_descr(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kUint8:
      return "|u1";
    case DType::kInt8:
      return "|i1";
    case DType::kUint16:
      return "<u2";
    case DType::kInt16:
      return "<i2";
    case DType::kUint32:
      return "<u4";
    case DType::kInt32:
      return "<i4";
    case DType::kUint64:
      return "<u8";
    case DType::kInt64:
      return "<i8";
    case DType::kFloat16:
      return "<f2";
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat64:
      return "<f8";
    case DType::kComplex64:
      return "<c8";
    case DType::kComplex128:
      return "<c16";
    default:
      return {};
  }
}

Result<NpyHeader> read_npy_header(std::span<const std::byte> file, const std::string& name) {
  ByteReader reader(file, name);
  MEG_ASSIGN_OR_RETURN(const std::string_view text, read_dictionary(&reader, name));
  NpyHeader header;
  MEG_RETURN_IF_ERROR(DictionaryParser(text, name).parse(&header));
  header.offset = reader.position();
  const std::optional<uint64_t> bytes = count_elements(&header);
  if (!bytes.has_value()) {
    return make_error(StatusCode::kCorruption, "{}: header: the shape has too many elements", name);
  }
  if (*bytes != reader.remaining()) {
    return make_error(StatusCode::kCorruption,
                      "{}: {} elements of {}: expected {} bytes after the header, found {}", name,
                      header.elements, dtype_name(header.dtype), *bytes, reader.remaining());
  }
  return header;
}

}  // namespace meg::numpy
