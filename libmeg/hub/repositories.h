#pragma once

#include <string>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::hub {

/// A folder that is served as a model.
struct Repository {
  /// Two names, "gpt/run1": those of its folder and of the folder above. Where it lies deeper below
  /// the root than two folders, the first folder's, and the others' joined by dots.
  std::string id;
  std::string path;
  bool is_run = false;  ///< Has iterations as revisions; else it is one checkpoint, `main`.
};

/// A folder or a checkpoint that is not served.
struct Unserved {
  std::string path;
  std::string reason;
};

struct RepositoryList {
  std::vector<Repository> repositories;  ///< By ascending id.
  std::vector<Unserved> unserved;
};

/// Folders below the root that are looked at.
inline constexpr int kMaxDepth = 6;
inline constexpr size_t kMaxFolders = 20'000;

/// Finds the runs (folders with Megatron's tracker, iter_* or release folders) and the other
/// checkpoints in `root`, the path of a folder without links, and in its folders. Does not follow
/// links to folders, and leaves out folders whose names begin with a dot. Not served: what has an
/// id that Hugging Face does not allow, or that another folder has as well.
Result<RepositoryList> find_repositories(const std::string& root);

/// One checkpoint of a repository.
struct Revision {
  std::string name;    ///< "iter_0005000", "release"; "main" where there is only that.
  std::string folder;  ///< Its path.
};

struct RevisionList {
  std::vector<Revision> revisions;  ///< By ascending name.
  std::string main;                 ///< The name of the one that `main` is; empty: none.
  std::vector<Unserved> unserved;

  const Revision* find(std::string_view name) const;
};

/// The revisions of a repository of the root. A run's tracker names its last complete save: `main`
/// is that one, and iterations above it are not served, as they may still be being written. Without
/// a tracker `main` is the highest iteration, and those that changed within the last minute are not
/// served.
Result<RevisionList> list_revisions(const std::string& root, const Repository& repository);

/// Whether a path, without its links, is in the root.
bool is_in_root(const std::string& root, const std::string& path);

}  // namespace meg::hub
