#include "libmeg/hub/internal/hub_answers.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace meg::hub {
namespace {

using nlohmann::ordered_json;

/// A digest as long as git's, as clients expect of a blob.
std::string object_id(const ServedFile& file) {
  return file.etag + std::string(40 - file.etag.size(), '0');
}

/// Names of files need not be UTF-8.
std::string text_of(const ordered_json& json) {
  return json.dump(-1, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

std::string owner_of(const std::string& id) { return id.substr(0, id.find('/')); }

std::string time_text(const FolderState& state) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(state.modified.time_since_epoch());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(milliseconds.count() / 1000),
                     milliseconds.count() % 1000);
}

ordered_json described(const std::string& id) {
  return {{"_id", id},
          {"id", id},
          {"modelId", id},
          {"author", owner_of(id)},
          {"private", true},
          {"gated", false},
          {"disabled", false},
          {"downloads", 0},
          {"likes", 0},
          {"library_name", "transformers"},
          {"pipeline_tag", "text-generation"},
          {"tags", {"transformers", "safetensors", "text-generation"}}};
}

std::string_view error_code(HubError kind) {
  switch (kind) {
    case HubError::kNone:
      return "";
    case HubError::kRepoNotFound:
      return "RepoNotFound";
    case HubError::kRevisionNotFound:
      return "RevisionNotFound";
    case HubError::kEntryNotFound:
      return "EntryNotFound";
  }
  return "";
}

/// A message as a header may have it.
std::string header_text(std::string_view message) {
  std::string text(message);
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace

serving::HttpResponse hub_error(int status, HubError kind, std::string_view message) {
  serving::HttpResponse response{.status = status, .body = text_of({{"error", message}})};
  if (kind != HubError::kNone) {
    response.headers.emplace_back("X-Error-Code", std::string(error_code(kind)));
  }
  response.headers.emplace_back("X-Error-Message", header_text(message));
  return response;
}

serving::HttpResponse hub_error_form(int status, std::string_view message) {
  // These words tell huggingface_hub a wrong token from a repository that is not there.
  if (status == 401) message = "Invalid credentials in Authorization header";
  return hub_error(status, HubError::kNone, message);
}

std::string models_json(const std::vector<Repository>& repositories) {
  ordered_json models = ordered_json::array();
  for (const Repository& repository : repositories) models.push_back(described(repository.id));
  return text_of(models);
}

std::string model_json(const std::string& id, const Commit& commit,
                       const ServedCheckpoint& checkpoint) {
  ordered_json model = described(id);
  model["sha"] = commit.state.digest;
  model["lastModified"] = time_text(commit.state);
  model["createdAt"] = model["lastModified"];
  model["config"] = {{"architectures", {checkpoint.class_name()}}};
  ordered_json siblings = ordered_json::array();
  for (const ServedFile& file : checkpoint.files()) {
    siblings.push_back(
        {{"rfilename", file.file.name()}, {"size", file.file.size()}, {"blobId", object_id(file)}});
  }
  model["siblings"] = std::move(siblings);
  return text_of(model);
}

std::string files_json(const std::vector<const ServedFile*>& files) {
  ordered_json listed = ordered_json::array();
  for (const ServedFile* file : files) {
    listed.push_back({{"type", "file"},
                      {"oid", object_id(*file)},
                      {"size", file->file.size()},
                      {"path", file->file.name()}});
  }
  return text_of(listed);
}

std::string refs_json(const std::vector<Commit>& commits, const std::string& main) {
  ordered_json branches = ordered_json::array();
  const auto add = [&](const std::string& name, const Commit& commit) {
    branches.push_back(
        {{"name", name}, {"ref", "refs/heads/" + name}, {"targetCommit", commit.state.digest}});
  };
  for (const Commit& commit : commits) {
    if (commit.name == main) add("main", commit);
  }
  for (const Commit& commit : commits) {
    if (commit.name != "main") add(commit.name, commit);
  }
  return text_of({{"branches", std::move(branches)},
                  {"converts", ordered_json::array()},
                  {"tags", ordered_json::array()}});
}

std::string commits_json(const std::string& owner, const Commit& commit) {
  ordered_json commits = ordered_json::array();
  commits.push_back({{"id", commit.state.digest},
                     {"title", commit.name},
                     {"message", ""},
                     {"date", time_text(commit.state)},
                     {"authors", ordered_json::array({{{"user", owner}}})}});
  return text_of(commits);
}

std::string listing_text(const std::string& root, const RepositoryList& list,
                         const std::vector<Result<RevisionList>>& revisions) {
  std::string text = fmt::format("{}: {} {}\n", root, list.repositories.size(),
                                 list.repositories.size() == 1 ? "model" : "models");
  std::vector<Unserved> unserved = list.unserved;
  for (size_t i = 0; i < list.repositories.size(); ++i) {
    text += fmt::format("\n{}\n", list.repositories[i].id);
    if (!revisions[i].has_value()) {
      unserved.push_back({list.repositories[i].path, revisions[i].status().message()});
      continue;
    }
    for (const Revision& revision : revisions[i]->revisions) {
      const bool is_main = revision.name == revisions[i]->main && revision.name != "main";
      text += fmt::format("  {}{}\n", revision.name, is_main ? "  main" : "");
    }
    unserved.insert(unserved.end(), revisions[i]->unserved.begin(), revisions[i]->unserved.end());
  }
  if (!unserved.empty()) text += "\nnot served:\n";
  for (const Unserved& one : unserved) text += fmt::format("  {}: {}\n", one.path, one.reason);
  return text;
}

}  // namespace meg::hub
