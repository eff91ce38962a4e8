#include "libmeg/preprocess/sources/internal/begin_check.h"

#include <utility>

#include "libmeg/io/byte_stream.h"
#include "libmeg/preprocess/sources/internal/column_reader.h"
#include "libmeg/preprocess/sources/internal/input_kind.h"

namespace meg::preprocess {
namespace {

/// Bytes of plain text that are looked at for its first one that is not blank.
constexpr size_t kLookedAt = size_t{64} << 10;

}  // namespace

/// Columns cannot be read from a stream.
Status BeginCheck::check_stream(std::string_view text) const {
  const ColumnFormat found = column_format_of(text);
  if (may_be_columns_ && found != ColumnFormat::kNone) {
    return make_error(StatusCode::kUnsupported,
                      "{}: {}: expected a regular file that is not compressed", name_,
                      column_format_name(found));
  }
  if (io::compression_of(text) != io::Compression::kNone) {
    return make_error(StatusCode::kUnsupported, "{}: compressed twice: decompress it once", name_);
  }
  return check_readable(name_, text);
}

/// Plain text that looks like JSON is likelier a wrong name.
Status BeginCheck::check(std::string_view text) {
  // Looked at once: the first bytes say what a compressed or piped content is.
  if (std::exchange(may_be_foreign_, false)) {
    MEG_RETURN_IF_ERROR(check_stream(text));
  }
  if (!may_be_json_) return Status();
  const size_t first = text.substr(0, kLookedAt).find_first_not_of(kJsonWhitespace);
  if (first == text.npos && text.size() < kLookedAt) return Status();
  may_be_json_ = false;
  if (first == text.npos || text[first] != '{') return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "{}: its name says plain text, but its first byte JSON: give `input_format` "
                    "json or txt",
                    name_);
}

}  // namespace meg::preprocess
