#include "libmeg/hub/hub.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "libmeg/hub/internal/catalog.h"
#include "libmeg/hub/internal/downloads.h"
#include "libmeg/hub/internal/hub_answers.h"
#include "libmeg/hub/internal/open_checkpoints.h"
#include "libmeg/text/printable.h"

// A request names a repository, a revision and a file; each is looked up in a list of what there
// is, so that no name of a client reaches the file system.

namespace meg::hub {
namespace {

namespace fs = std::filesystem;

using serving::HttpCall;
using serving::HttpResponse;

/// The parts of a path between slashes; an empty one at its end is none.
std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const size_t end = std::min(path.find('/'), path.size());
    parts.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  if (!parts.empty() && parts.back().empty()) parts.pop_back();
  return parts;
}

std::string joined(const std::vector<std::string>& parts, size_t first) {
  return fmt::format(
      "{}", fmt::join(parts.begin() + static_cast<std::ptrdiff_t>(std::min(first, parts.size())),
                      parts.end(), "/"));
}

HttpResponse json_response(std::string body) { return {.body = std::move(body)}; }

/// The paths that get_paths_info() sends: a form, or JSON.
std::set<std::string> sent_paths(const HttpCall& call) {
  std::set<std::string> paths;
  if (call.request.media_type() == serving::kJsonType) {
    const auto json = nlohmann::json::parse(call.body, nullptr, false);
    if (!json.is_object() || !json.contains("paths") || !json["paths"].is_array()) return paths;
    for (const auto& path : json["paths"]) {
      if (path.is_string()) paths.insert(path.get<std::string>());
    }
    return paths;
  }
  for (const auto& [name, value] : serving::form_fields(call.body)) {
    if (name == "paths") paths.insert(value);
  }
  return paths;
}

}  // namespace

class Hub::Implementation {
 public:
  explicit Implementation(HubOptions options)
      : catalog_(options.rules.root),
        checkpoints_(std::move(options.rules), options.max_open, std::move(options.log)),
        downloads_(options.max_downloads, options.transposed_bytes) {}

  Catalog& catalog() { return catalog_; }

  HttpResponse answer(const HttpCall& call) {
    const std::vector<std::string> parts = split(call.request.path);
    if (parts.empty()) return list_for_people();
    if (parts[0] == "health") return json_response("{\"status\":\"ok\"}\n");
    if (parts[0] == "api") return answer_api(call, parts);
    if (parts.size() >= 5 && parts[2] == "resolve") {
      if (call.request.method == "POST") return hub_error_form(405, "this path takes GET");
      return answer_file(call, parts[0] + "/" + parts[1], parts[3], joined(parts, 4));
    }
    // A repository of one name, or of a kind that this is none of.
    return hub_error(404, HubError::kRepoNotFound,
                     "there is nothing at this path: expected /NAME/run/resolve/REVISION/FILE");
  }

 private:
  HttpResponse list_for_people() {
    const auto list = catalog_.repositories();
    if (!list.has_value()) return hub_error_form(500, list.status().message());
    std::vector<Result<RevisionList>> revisions;
    for (const Repository& one : (*list)->repositories) {
      revisions.push_back(list_revisions(catalog_.root(), one));
    }
    return {.body = listing_text(catalog_.root(), **list, revisions),
            .content_type = "text/plain; charset=utf-8",
            .headers = {{"X-Content-Type-Options", "nosniff"}}};
  }

  /// /api/models, /api/models/NAME/run and what is below.
  HttpResponse answer_api(const HttpCall& call, const std::vector<std::string>& parts) {
    if (parts.size() == 2 && parts[1] == "whoami-v2") {
      return json_response(
          "{\"type\":\"user\",\"id\":\"libmeg\",\"name\":\"libmeg\",\"orgs\":[],\"auth\":{}}\n");
    }
    if (parts.size() < 2 || parts[1] != "models") {
      return hub_error(404, HubError::kRepoNotFound, "this hub has models only");
    }
    if (parts.size() == 2) return answer_models(call);
    if (parts.size() == 3) return no_repository(parts[2]);
    const std::string id = parts[2] + "/" + parts[3];
    const std::string what = parts.size() > 4 ? parts[4] : "";
    const std::string revision = parts.size() > 5 ? parts[5] : "main";
    if (call.request.method == "POST" && what != "paths-info") {
      return hub_error_form(405, "this path takes GET");
    }
    // The names of revisions have no slashes.
    if (what.empty()) return answer_model(id, "main");
    if (what == "revision") return answer_model(id, joined(parts, 5));
    if (what == "tree") return answer_tree(id, revision, joined(parts, 6));
    if (what == "paths-info") return answer_paths(call, id, joined(parts, 5));
    if (what == "refs") return answer_refs(id);
    if (what == "commits") return answer_commits(id, joined(parts, 5));
    return hub_error(404, HubError::kEntryNotFound, "this hub has no such part of its API");
  }

  HttpResponse answer_models(const HttpCall& call) {
    const auto list = catalog_.repositories();
    if (!list.has_value()) return hub_error_form(500, list.status().message());
    std::vector<Repository> found = (*list)->repositories;
    if (const auto author = call.request.parameter("author")) {
      std::erase_if(found,
                    [&](const Repository& one) { return !one.id.starts_with(*author + "/"); });
    }
    if (const auto search = call.request.parameter("search")) {
      std::erase_if(
          found, [&](const Repository& one) { return one.id.find(*search) == std::string::npos; });
    }
    return json_response(models_json(found));
  }

  HttpResponse answer_model(const std::string& id, const std::string& name) {
    return with_checkpoint(id, name, [&](const Found& found, const CheckpointPointer& open) {
      return json_response(model_json(id, {found.revision.name, found.state}, *open));
    });
  }

  HttpResponse answer_tree(const std::string& id, const std::string& name,
                           const std::string& folder) {
    return with_checkpoint(id, name, [&](const Found& found, const CheckpointPointer& open) {
      // The files of a model lie side by side.
      if (!folder.empty()) return no_entry(found, folder);
      std::vector<const ServedFile*> files;
      for (const ServedFile& file : open->files()) files.push_back(&file);
      return json_response(files_json(files));
    });
  }

  HttpResponse answer_paths(const HttpCall& call, const std::string& id, const std::string& name) {
    return with_checkpoint(id, name, [&](const Found&, const CheckpointPointer& open) {
      // Each file once, however often it is named.
      std::vector<const ServedFile*> files;
      const std::set<std::string> wanted = sent_paths(call);
      for (const ServedFile& file : open->files()) {
        if (wanted.contains(file.file.name())) files.push_back(&file);
      }
      return json_response(files_json(files));
    });
  }

  HttpResponse answer_refs(const std::string& id) {
    const std::optional<Repository> repository = catalog_.find(id);
    if (!repository) return no_repository(id);
    const auto found = catalog_.commits(*repository);
    if (!found.has_value()) return hub_error_form(500, found.status().message());
    return json_response(refs_json(found->first, found->second));
  }

  HttpResponse answer_commits(const std::string& id, const std::string& name) {
    Found found;
    if (auto error = find(id, name, &found)) return *std::move(error);
    return json_response(
        commits_json(id.substr(0, id.find('/')), {found.revision.name, found.state}));
  }

  HttpResponse answer_file(const HttpCall& call, const std::string& id, const std::string& name,
                           const std::string& path) {
    return with_checkpoint(id, name, [&](const Found& found, const CheckpointPointer& open) {
      const ServedFile* file = open->find(path);
      return file == nullptr ? no_entry(found, path) : downloads_.send(call, found, open, *file);
    });
  }

  static HttpResponse no_repository(const std::string& id) {
    return hub_error(404, HubError::kRepoNotFound,
                     fmt::format("no such model: {}", text::printable(id)));
  }

  static HttpResponse no_entry(const Found& found, const std::string& path) {
    HttpResponse response = hub_error(404, HubError::kEntryNotFound,
                                      fmt::format("{} at {}: no such file: {}", found.repository.id,
                                                  found.revision.name, text::printable(path)));
    // With it clients remember that the file is not there.
    response.headers.emplace_back("X-Repo-Commit", found.state.digest);
    return response;
  }

  /// name: of a revision, `main`, or a commit.
  std::optional<HttpResponse> find(const std::string& id, const std::string& name, Found* found) {
    const std::optional<Repository> repository = catalog_.find(id);
    if (!repository) return no_repository(id);
    Result<Found> named = catalog_.find(*repository, name);
    if (named.has_value()) {
      *found = *std::move(named);
      return std::nullopt;
    }
    return hub_error(
        404, HubError::kRevisionNotFound,
        fmt::format("{}: revision {}: {}", id, text::printable(name), named.status().message()));
  }

  template <class Answer>
  HttpResponse with_checkpoint(const std::string& id, const std::string& name,
                               const Answer& answer) {
    Found found;
    if (auto error = find(id, name, &found)) return *std::move(error);
    const Result<CheckpointPointer> open = checkpoints_.open(found);
    if (open.has_value()) return answer(found, *open);
    // To a client a checkpoint that cannot be served is a revision that is not there; this is the
    // error that it shows with its reason.
    return hub_error(
        404, HubError::kRevisionNotFound,
        fmt::format("{}: revision {}: {}", id, found.revision.name, open.status().message()));
  }

  Catalog catalog_;
  OpenCheckpoints checkpoints_;
  Downloads downloads_;
};

Hub::Hub(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

Hub::~Hub() = default;

Result<std::unique_ptr<Hub>> Hub::open(const std::string& root, HubOptions options) {
  std::error_code error;
  const fs::path path = fs::canonical(root, error);
  if (error) return errno_error(error.value(), root);
  if (!fs::is_directory(path, error)) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected a folder, found a file", root);
  }
  options.rules.root = path.string();
  return std::unique_ptr<Hub>(new Hub(std::make_unique<Implementation>(std::move(options))));
}

std::vector<serving::HttpRoute> Hub::routes() {
  const auto answer = [this](const HttpCall& call) { return implementation_->answer(call); };
  return {
      {.methods = {"GET"},
       .path = "/health",
       .is_open = true,
       .handler = answer,
       .error_form = hub_error_form},
      {.methods = {"GET", "POST"},
       .path = "/",
       .is_prefix = true,
       .takes_form = true,
       .handler = answer,
       .error_form = hub_error_form},
  };
}

const std::string& Hub::root() const { return implementation_->catalog().root(); }

Result<RepositoryList> Hub::repositories() {
  MEG_ASSIGN_OR_RETURN(const auto list, implementation_->catalog().repositories());
  return *list;
}

}  // namespace meg::hub
