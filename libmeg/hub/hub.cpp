#include "libmeg/hub/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <semaphore>
#include <set>
#include <utility>

#include "libmeg/base/stopwatch.h"
#include "libmeg/checkpoint/state/transposed_source.h"
#include "libmeg/hub/internal/byte_range.h"
#include "libmeg/hub/internal/hub_answers.h"
#include "libmeg/text/printable.h"

// A request names a repository, a revision and a file; each is looked up in a list of what there
// is, so that no name of a client reaches the file system. What a folder holds is asked of the
// system at most once in kFresh: a run in training changes seldom, and clients ask often.

namespace meg::hub {
namespace {

namespace fs = std::filesystem;

using serving::HttpCall;
using serving::HttpResponse;
using Clock = std::chrono::steady_clock;

constexpr auto kFresh = std::chrono::seconds(1);
/// By how much longer a list is used than it takes to make.
constexpr int kSeldom = 20;
/// Bytes of a body that are made at once.
constexpr size_t kPiece = size_t{1} << 17;
/// What a download may cache of transposed matrices at most.
constexpr int64_t kLargestShare = int64_t{32} << 20;
/// Checkpoints that are opened at once.
constexpr int kOpening = 2;
/// Folders whose states are remembered.
constexpr size_t kMostStates = 4096;

constexpr std::string_view kWeightsType = "application/octet-stream";

using CheckpointPointer = std::shared_ptr<const ServedCheckpoint>;

/// A revision that a request named.
struct Found {
  Repository repository;
  Revision revision;
  FolderState state;
};

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

/// Whether a list such as `"abc", W/"def"` or `*` has this tag.
bool names_tag(const std::string* header, const std::string& quoted) {
  return header != nullptr && (header->find(quoted) != std::string::npos || *header == "*");
}

}  // namespace

class Hub::Implementation {
 public:
  explicit Implementation(HubOptions options) : options_(std::move(options)) {}

  const std::string& root() const { return options_.rules.root; }

  Result<std::shared_ptr<const RepositoryList>> repositories() {
    const std::lock_guard lock(list_mutex_);
    if (list_ == nullptr || Clock::now() >= list_again_) {
      const Clock::time_point begin = Clock::now();
      MEG_ASSIGN_OR_RETURN(RepositoryList found, find_repositories(root()));
      list_ = std::make_shared<const RepositoryList>(std::move(found));
      // Where it takes long to look through all folders it is done as seldom.
      const Clock::time_point end = Clock::now();
      list_again_ = end + std::max<Clock::duration>(kFresh, (end - begin) * kSeldom);
    }
    return list_;
  }

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
    const auto list = repositories();
    if (!list.has_value()) return hub_error_form(500, list.status().message());
    std::vector<Result<RevisionList>> revisions;
    for (const Repository& one : (*list)->repositories) {
      revisions.push_back(list_revisions(root(), one));
    }
    return {.body = listing_text(root(), **list, revisions),
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
    const auto list = repositories();
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
    const std::optional<Repository> repository = find_repository(id);
    if (!repository) return no_repository(id);
    const Result<RevisionList> revisions = list_revisions(root(), *repository);
    if (!revisions.has_value()) return hub_error_form(500, revisions.status().message());
    std::vector<Commit> commits;
    for (const Revision& revision : revisions->revisions) {
      auto state = state_of(revision.folder);
      if (state.has_value()) commits.push_back({revision.name, *std::move(state)});
    }
    return json_response(refs_json(commits, revisions->main));
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
      return file == nullptr ? no_entry(found, path) : send(call, found, open, *file);
    });
  }

  HttpResponse send(const HttpCall& call, const Found& found, const CheckpointPointer& open,
                    const ServedFile& file) {
    const uint64_t size = file.file.size();
    const std::string tag = "\"" + file.etag + "\"";
    call.log.note = fmt::format("{} at {}: {}", found.repository.id, found.revision.name,
                                text::printable_name(file.file.name()));
    HttpResponse response;
    response.content_type = file.file.name().ends_with(".json") ? std::string(serving::kJsonType)
                                                                : std::string(kWeightsType);
    response.headers = {{"ETag", tag},
                        {"X-Repo-Commit", found.state.digest},
                        {"X-Linked-Size", std::to_string(size)},
                        {"X-Linked-ETag", tag},
                        {"Accept-Ranges", "bytes"},
                        {"X-Content-Type-Options", "nosniff"}};
    if (names_tag(call.request.header("if-none-match"), tag)) {
      response.status = 304;
      return response;
    }
    RangeAnswer part{200, {0, size}};
    const std::string* header = call.request.header("range");
    const std::string* condition = call.request.header("if-range");
    // A part of other bytes than the client has is of no use to it.
    if (header != nullptr && call.request.method == "GET" &&
        (condition == nullptr || *condition == tag)) {
      part = read_range(*header, size);
    }
    response.status = part.status;
    if (part.status == 416) {
      response.headers.emplace_back("Content-Range", fmt::format("bytes */{}", size));
      return response;
    }
    if (part.status == 206) {
      response.headers.emplace_back("Content-Range",
                                    fmt::format("bytes {}-{}/{}", part.range.first,
                                                part.range.first + part.range.count - 1, size));
    }
    response.length = part.range.count;
    std::shared_ptr<const void> place;
    if (call.request.method == "GET" && file.is_weights) {
      place = take_place();
      if (place == nullptr) {
        HttpResponse busy = hub_error_form(
            429, fmt::format("{} downloads are under way already", options_.max_downloads));
        busy.headers.emplace_back("Retry-After", "1");
        return busy;
      }
    }
    response.write = [this, open, &file, range = part.range, &log = call.log,
                      place](serving::HttpBodyWriter& writer) {
      const std::string reason = write_body(*open, file, range, writer);
      if (!reason.empty()) log.note += ": " + reason;
    };
    return response;
  }

  /// Returns why the body ends early; empty where it does not, or where the client is gone.
  std::string write_body(const ServedCheckpoint& open, const ServedFile& file, ByteRange range,
                         serving::HttpBodyWriter& writer) {
    int64_t share = 0;
    std::vector<std::byte> piece;
    std::string reason;
    while (range.count > 0) {
      piece.resize(std::min<uint64_t>(range.count, kPiece));
      if (file.is_weights) take_share(&share);
      const Status status = open.read(file, range.first, piece);
      if (!status.ok()) {
        reason = status.message();
        break;
      }
      const std::string_view bytes(reinterpret_cast<const char*>(piece.data()), piece.size());
      if (!writer.write(bytes)) break;
      range.first += piece.size();
      range.count -= piece.size();
    }
    checkpoint::share_transposed_memory(0, false);
    return reason;
  }

  /// What a thread caches of transposed matrices is shared between the downloads. What it has is
  /// lost with every change, so small ones are let be.
  void take_share(int64_t* share) {
    const int64_t now =
        std::min(options_.transposed_bytes / std::max<int64_t>(1, static_cast<int64_t>(downloads_)),
                 kLargestShare);
    if (now * 2 > *share && now < *share * 2) return;
    *share = now;
    // Half of it would be for what is mapped.
    checkpoint::share_transposed_memory(now * 2, false);
  }

  /// Held as long as a download takes; nullptr where there are too many.
  std::shared_ptr<const void> take_place() {
    if (downloads_.fetch_add(1) >= options_.max_downloads) {
      --downloads_;
      return nullptr;
    }
    return {this, [this](const void*) { --downloads_; }};
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

  std::optional<Repository> find_repository(const std::string& id) {
    const auto list = repositories();
    if (!list.has_value()) return std::nullopt;
    const auto found = std::ranges::find((*list)->repositories, id, &Repository::id);
    return found == (*list)->repositories.end() ? std::nullopt : std::optional(*found);
  }

  /// name: of a revision, `main`, or a commit.
  std::optional<HttpResponse> find(const std::string& id, const std::string& name, Found* found) {
    const std::optional<Repository> repository = find_repository(id);
    if (!repository) return no_repository(id);
    const auto fail = [&](std::string_view reason) {
      return hub_error(404, HubError::kRevisionNotFound,
                       fmt::format("{}: revision {}: {}", id, text::printable(name), reason));
    };
    const Result<RevisionList> revisions = list_revisions(root(), *repository);
    if (!revisions.has_value()) return fail(revisions.status().message());
    found->repository = *repository;
    if (const Revision* named = revisions->find(name)) {
      auto state = state_of(named->folder);
      if (!state.has_value()) return fail(state.status().message());
      found->revision = *named;
      found->state = *std::move(state);
      return std::nullopt;
    }
    for (const Unserved& one : revisions->unserved) {
      if (fs::path(one.path).filename() == name) return fail(one.reason);
    }
    // A commit is the digest of a folder's state.
    for (const Revision& one : revisions->revisions) {
      auto state = state_of(one.folder);
      if (!state.has_value() || state->digest != name) continue;
      found->revision = one;
      found->state = *std::move(state);
      return std::nullopt;
    }
    return fail("no such iteration");
  }

  template <class Answer>
  HttpResponse with_checkpoint(const std::string& id, const std::string& name,
                               const Answer& answer) {
    Found found;
    if (auto error = find(id, name, &found)) return *std::move(error);
    const Result<CheckpointPointer> open = open_checkpoint(found);
    if (open.has_value()) return answer(found, *open);
    // To a client a checkpoint that cannot be served is a revision that is not there; this is the
    // error that it shows with its reason.
    return hub_error(
        404, HubError::kRevisionNotFound,
        fmt::format("{}: revision {}: {}", id, found.revision.name, open.status().message()));
  }

  Result<FolderState> state_of(const std::string& folder) {
    {
      const std::lock_guard lock(states_mutex_);
      const auto known = states_.find(folder);
      if (known != states_.end() && Clock::now() - known->second.first < kFresh) {
        return known->second.second;
      }
    }
    const Clock::time_point now = Clock::now();
    MEG_ASSIGN_OR_RETURN(FolderState state, folder_state(root(), folder));
    const std::lock_guard lock(states_mutex_);
    if (states_.size() >= kMostStates) states_.clear();
    states_[folder] = {now, state};
    return state;
  }

  /// A checkpoint that is open or cannot be opened.
  struct Slot {
    std::mutex mutex;  ///< Held while it is opened: others wait for the same.
    std::string digest;
    std::optional<Result<CheckpointPointer>> result;
  };

  /// The one of a folder, as the one that was used last.
  std::shared_ptr<Slot> slot_of(const std::string& folder) {
    const std::lock_guard lock(slots_mutex_);
    const auto known =
        std::ranges::find(slots_, folder, &std::pair<std::string, std::shared_ptr<Slot>>::first);
    if (known != slots_.end()) {
      slots_.splice(slots_.begin(), slots_, known);
    } else {
      slots_.emplace_front(folder, std::make_shared<Slot>());
      if (slots_.size() > options_.max_open) slots_.pop_back();
    }
    return slots_.front().second;
  }

  Result<CheckpointPointer> open_checkpoint(const Found& found) {
    const std::shared_ptr<Slot> slot = slot_of(found.revision.folder);
    const std::lock_guard lock(slot->mutex);
    if (slot->result.has_value() && slot->digest == found.state.digest) return *slot->result;
    const Stopwatch watch;
    Result<CheckpointPointer> open = open_in_turn(found);
    log_opening(found, open, watch.seconds());
    // What the system refused it may allow the next time.
    const bool is_lasting =
        open.has_value() || (open.status().code() != StatusCode::kIoError &&
                             open.status().code() != StatusCode::kResourceExhausted);
    slot->result = is_lasting ? std::optional(open) : std::nullopt;
    slot->digest = found.state.digest;
    return open;
  }

  Result<CheckpointPointer> open_in_turn(const Found& found) {
    const auto release = [](std::counting_semaphore<kOpening>* opening) { opening->release(); };
    opening_.acquire();
    const std::unique_ptr<std::counting_semaphore<kOpening>, decltype(release)> turn(&opening_,
                                                                                     release);
    return ServedCheckpoint::open(options_.rules, found.revision.folder, found.state);
  }

  void log_opening(const Found& found, const Result<CheckpointPointer>& open, double seconds) {
    if (!options_.log) return;
    const std::string what = fmt::format("{} at {}", found.repository.id, found.revision.name);
    if (!open.has_value()) {
      options_.log(fmt::format("{}: not served: {}", what, open.status().message()));
      return;
    }
    options_.log(fmt::format("{}: opened in {:.1f} ms", what, seconds * 1e3));
    for (const std::string& note : (*open)->notes()) {
      options_.log(fmt::format("{}: note: {}", what, note));
    }
  }

  const HubOptions options_;
  std::mutex list_mutex_;
  std::shared_ptr<const RepositoryList> list_;  ///< Guarded by list_mutex_, as the next one.
  Clock::time_point list_again_;
  std::mutex states_mutex_;
  std::map<std::string, std::pair<Clock::time_point, FolderState>> states_;
  std::mutex slots_mutex_;
  /// By folder, the last used one first; guarded by slots_mutex_.
  std::list<std::pair<std::string, std::shared_ptr<Slot>>> slots_;
  std::counting_semaphore<kOpening> opening_{kOpening};
  std::atomic<size_t> downloads_ = 0;
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

const std::string& Hub::root() const { return implementation_->root(); }

Result<RepositoryList> Hub::repositories() {
  MEG_ASSIGN_OR_RETURN(const auto list, implementation_->repositories());
  return *list;
}

}  // namespace meg::hub
