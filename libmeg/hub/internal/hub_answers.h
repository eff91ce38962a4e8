#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libmeg/hub/repositories.h"
#include "libmeg/hub/served_checkpoint.h"
#include "libmeg/serving/http/http_message.h"

namespace meg::hub {

/// What an error is to huggingface_hub: one of its exceptions.
enum class HubError { kNone, kRepoNotFound, kRevisionNotFound, kEntryNotFound };

/// An error as huggingface_hub reads it.
serving::HttpResponse hub_error(int status, HubError kind, std::string_view message);

/// The same for errors of the server itself.
serving::HttpResponse hub_error_form(int status, std::string_view message);

/// The commit that a state of a folder is.
struct Commit {
  std::string name;  ///< Of the revision.
  FolderState state;
};

/// A repository in the list of all.
std::string models_json(const std::vector<Repository>& repositories);

/// What model_info() wants. files: of the checkpoint.
std::string model_json(const std::string& id, const Commit& commit,
                       const ServedCheckpoint& checkpoint);

/// What list_repo_tree() and get_paths_info() want.
std::string files_json(const std::vector<const ServedFile*>& files);

/// What list_repo_refs() wants; main: the name of the revision that it is.
std::string refs_json(const std::vector<Commit>& commits, const std::string& main);

/// What list_repo_commits() wants: a revision has one, without others before it.
std::string commits_json(const std::string& owner, const Commit& commit);

/// A page for people: what is served, and what is not and why.
std::string listing_text(const std::string& root, const RepositoryList& list,
                         const std::vector<Result<RevisionList>>& revisions);

}  // namespace meg::hub
