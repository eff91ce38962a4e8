#include "libmeg/preprocess/internal/check_first_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/preprocess/internal/chunk_documents.h"
#include "libmeg/preprocess/sources/internal/document_reader.h"
#include "libmeg/preprocess/sources/internal/first_documents.h"
#include "libmeg/preprocess/sources/internal/input_paths.h"

namespace meg::preprocess {
namespace {

/// Objects of a store are waited for, so that more threads than processors are of use.
constexpr int kMaxThreads = 8;

Status check_first_document(const std::string& path, const InputOptions& options,
                            const std::vector<std::string>& keys) {
  TextChunk chunk;
  MEG_RETURN_IF_ERROR(read_first_documents(path, options, keys, chunk));
  DocumentReader reader(keys);
  bool is_first = true;
  const auto take = [&](std::string_view document, size_t record) -> Result<bool> {
    if (std::exchange(is_first, false)) MEG_RETURN_IF_ERROR(reader.read(document, record, chunk));
    return true;
  };
  DocumentCounts counts;
  read_documents(chunk, true, take, counts);
  if (counts.bad_lines.empty()) return Status();
  const BadLine& bad = counts.bad_lines.front();
  return Status(bad.error.code(),
                fmt::format("{}: line {}, {}", path, bad.line + 1, bad.error.message()));
}

}  // namespace

Status check_first_documents(const TextSource& source, const InputOptions& options,
                             const std::vector<std::string>& keys) {
  const std::vector<std::string>& paths = source.paths();
  if (paths.empty()) return Status();
  std::vector<Status> statuses(paths.size());
  ThreadPool pool(static_cast<int>(std::min<size_t>(paths.size(), kMaxThreads)));
  for (size_t i = 0; i < paths.size(); ++i) {
    pool.submit([&, i] {
      statuses[i] = with_pattern(check_first_document(paths[i], options, keys), paths[i], paths);
    });
  }
  pool.wait();
  for (const Status& status : statuses) MEG_RETURN_IF_ERROR(status);
  return Status();
}

}  // namespace meg::preprocess
