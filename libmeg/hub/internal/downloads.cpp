#include "libmeg/hub/internal/downloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/state/transposed_source.h"
#include "libmeg/hub/internal/hub_answers.h"
#include "libmeg/text/printable.h"

namespace meg::hub {
namespace {

/// Bytes of a body that are made at once.
constexpr size_t kPiece = size_t{1} << 17;
/// What a download may cache of transposed matrices at most.
constexpr int64_t kLargestShare = int64_t{32} << 20;

constexpr std::string_view kWeightsType = "application/octet-stream";

/// Whether a list such as `"abc", W/"def"` or `*` has this tag.
bool names_tag(const std::string* header, const std::string& quoted) {
  return header != nullptr && (header->find(quoted) != std::string::npos || *header == "*");
}

}  // namespace

serving::HttpResponse Downloads::send(const serving::HttpCall& call, const Found& found,
                                      const CheckpointPointer& open, const ServedFile& file) {
  const uint64_t size = file.file.size();
  const std::string tag = "\"" + file.etag + "\"";
  call.log.note = fmt::format("{} at {}: {}", found.repository.id, found.revision.name,
                              text::printable_name(file.file.name()));
  serving::HttpResponse response;
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
      serving::HttpResponse busy =
          hub_error_form(429, fmt::format("{} downloads are under way already", most_));
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
std::string Downloads::write_body(const ServedCheckpoint& open, const ServedFile& file,
                                  ByteRange range, serving::HttpBodyWriter& writer) {
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
void Downloads::take_share(int64_t* share) {
  const int64_t now = std::min(
      transposed_bytes_ / std::max<int64_t>(1, static_cast<int64_t>(count_)), kLargestShare);
  if (now * 2 > *share && now < *share * 2) return;
  *share = now;
  // Half of it would be for what is mapped.
  checkpoint::share_transposed_memory(now * 2, false);
}

/// Held as long as a download takes; nullptr where there are too many.
std::shared_ptr<const void> Downloads::take_place() {
  if (count_.fetch_add(1) >= most_) {
    --count_;
    return nullptr;
  }
  return {this, [this](const void*) { --count_; }};
}

}  // namespace meg::hub
