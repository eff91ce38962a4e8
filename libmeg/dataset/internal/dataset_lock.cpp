#include "libmeg/dataset/internal/dataset_lock.h"

#include <optional>
#include <utility>

namespace meg::dataset {

Result<io::FileLock> lock_dataset(const std::string& prefix) {
  const std::string path = prefix + ".lock";
  // Do not wait: whoever waited would replace what the other has just written.
  MEG_ASSIGN_OR_RETURN(std::optional<io::FileLock> lock, io::FileLock::try_acquire(path));
  if (lock.has_value()) return *std::move(lock);
  return make_error(StatusCode::kIoError,
                    "{}: another process is writing this dataset (it holds {})", prefix, path);
}

}  // namespace meg::dataset
