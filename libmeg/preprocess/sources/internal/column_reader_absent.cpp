// Takes the place of arrow/ in builds without Arrow.

#include "libmeg/preprocess/sources/internal/column_reader.h"

namespace meg::preprocess {
namespace {

Status not_built(const io::FileDescriptor& file, ColumnFormat format) {
  return make_error(StatusCode::kUnsupported,
                    "{}: {} files need a build with Arrow: install the PyPI wheel pyarrow by "
                    "scripts/setup.sh, then configure and build again",
                    file.path(), column_format_name(format));
}

}  // namespace

Result<std::unique_ptr<ColumnReader>> ColumnReader::open(const io::FileDescriptor& file,
                                                         ColumnFormat format,
                                                         const std::vector<std::string>&, size_t) {
  return not_built(file, format);
}

Result<int64_t> count_groups(const io::FileDescriptor& file, ColumnFormat format) {
  return not_built(file, format);
}

}  // namespace meg::preprocess
