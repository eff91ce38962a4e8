#include "libmeg/hub/internal/catalog.h"

#include <algorithm>
#include <filesystem>

namespace meg::hub {
namespace {

constexpr auto kFresh = std::chrono::seconds(1);
/// By how much longer a list is used than it takes to make.
constexpr int kSeldom = 20;
/// Folders whose states are remembered.
constexpr size_t kMostStates = 4096;

}  // namespace

Result<std::shared_ptr<const RepositoryList>> Catalog::repositories() {
  const std::lock_guard lock(list_mutex_);
  if (list_ == nullptr || Clock::now() >= list_again_) {
    const Clock::time_point begin = Clock::now();
    MEG_ASSIGN_OR_RETURN(RepositoryList found, find_repositories(root_));
    list_ = std::make_shared<const RepositoryList>(std::move(found));
    // Where it takes long to look through all folders it is done as seldom.
    const Clock::time_point end = Clock::now();
    list_again_ = end + std::max<Clock::duration>(kFresh, (end - begin) * kSeldom);
  }
  return list_;
}

std::optional<Repository> Catalog::find(const std::string& id) {
  const auto list = repositories();
  if (!list.has_value()) return std::nullopt;
  const auto found = std::ranges::find((*list)->repositories, id, &Repository::id);
  return found == (*list)->repositories.end() ? std::nullopt : std::optional(*found);
}

Result<Found> Catalog::find(const Repository& repository, const std::string& name) {
  MEG_ASSIGN_OR_RETURN(const RevisionList revisions, list_revisions(root_, repository));
  if (const Revision* named = revisions.find(name)) {
    MEG_ASSIGN_OR_RETURN(FolderState state, state_of(named->folder));
    return Found{repository, *named, std::move(state)};
  }
  for (const Unserved& one : revisions.unserved) {
    if (std::filesystem::path(one.path).filename() == name) {
      return Status(StatusCode::kNotFound, one.reason);
    }
  }
  // A commit is the digest of a folder's state.
  for (const Revision& one : revisions.revisions) {
    Result<FolderState> state = state_of(one.folder);
    if (state.has_value() && state->digest == name) {
      return Found{repository, one, *std::move(state)};
    }
  }
  return Status(StatusCode::kNotFound, "no such iteration");
}

Result<std::pair<std::vector<Commit>, std::string>> Catalog::commits(const Repository& repository) {
  MEG_ASSIGN_OR_RETURN(const RevisionList revisions, list_revisions(root_, repository));
  std::vector<Commit> commits;
  for (const Revision& revision : revisions.revisions) {
    Result<FolderState> state = state_of(revision.folder);
    if (state.has_value()) commits.push_back({revision.name, *std::move(state)});
  }
  return std::pair(std::move(commits), revisions.main);
}

Result<FolderState> Catalog::state_of(const std::string& folder) {
  {
    const std::lock_guard lock(states_mutex_);
    const auto known = states_.find(folder);
    if (known != states_.end() && Clock::now() - known->second.first < kFresh) {
      return known->second.second;
    }
  }
  const Clock::time_point now = Clock::now();
  MEG_ASSIGN_OR_RETURN(FolderState state, folder_state(root_, folder));
  const std::lock_guard lock(states_mutex_);
  if (states_.size() >= kMostStates) states_.clear();
  states_[folder] = {now, state};
  return state;
}

}  // namespace meg::hub
