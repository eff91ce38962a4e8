#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/hub/folder_state.h"
#include "libmeg/hub/internal/hub_answers.h"
#include "libmeg/hub/repositories.h"

namespace meg::hub {

/// A revision that a request named.
struct Found {
  Repository repository;
  Revision revision;
  FolderState state;
};

/// What there is below a root, looked up by the names of a request. What a folder holds is asked of
/// the system at most once in a second: a run in training changes seldom, and clients ask often.
/// May be called by several threads.
class Catalog {
 public:
  /// root: the path of a folder, without links.
  explicit Catalog(std::string root) : root_(std::move(root)) {}

  const std::string& root() const { return root_; }

  Result<std::shared_ptr<const RepositoryList>> repositories();

  /// Nothing where there is no such repository.
  std::optional<Repository> find(const std::string& id);

  /// name: of a revision, `main`, or a commit. kNotFound, with the reason, for what is not served.
  Result<Found> find(const Repository& repository, const std::string& name);

  /// Those of a repository, and the name of the one that `main` is.
  Result<std::pair<std::vector<Commit>, std::string>> commits(const Repository& repository);

 private:
  using Clock = std::chrono::steady_clock;

  Result<FolderState> state_of(const std::string& folder);

  const std::string root_;
  std::mutex list_mutex_;
  std::shared_ptr<const RepositoryList> list_;  ///< Guarded by list_mutex_, as the next one.
  Clock::time_point list_again_;
  std::mutex states_mutex_;
  std::map<std::string, std::pair<Clock::time_point, FolderState>> states_;
};

}  // namespace meg::hub
