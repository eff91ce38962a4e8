#include "libmeg/samples/cache/internal/cache_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "libmeg/samples/cache/internal/cache_lock.h"
#include "libmeg/samples/cache/internal/cached_index.h"

// A cache is taken only when nothing speaks against it, cheapest question first: all files there,
// the same description, libmeg's sidecar (if there is one) for this request and these data, types
// and shapes, the sidecar's digests of the files' ends, and entries at the ends of the sample
// index. None of them reads a whole index. Every "no" has a text, which becomes the reason for
// building the cache again. docs/prepare_cache.md tells users what is compared, and has the
// sidecar's fields.

namespace meg::samples {
namespace {

namespace fs = std::filesystem;

/// A sidecar that is truncated is seen as such, and one that is missing is no harm.
Status write_sidecar(Result<io::AtomicFile> created, const CacheSidecar& sidecar) {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, std::move(created));
  // The digest at its end exposes a sidecar that a crash has cut, so it need not be flushed.
  const std::string text = sidecar_text(sidecar);
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.commit(io::AtomicFile::Flush::kNothing);
}

/// Whether the file holds `text` and nothing else; reads no more than that.
Result<bool> holds_text(const std::string& path, std::string_view text) {
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, io::FileDescriptor::open_regular(path));
  // One byte more than expected: a longer file is seen as one.
  std::string found(text.size() + 1, '\0');
  MEG_ASSIGN_OR_RETURN(const size_t size, file.read(std::as_writable_bytes(std::span(found))));
  return std::string_view(found).substr(0, size) == text;
}

/// From the first removal on, nobody takes the rest for whole.
void remove_cache(const GptIndexCacheFiles& files) {
  std::error_code ignored;
  for (const std::string& part : files.parts()) fs::remove(part, ignored);
  fs::remove(files.sidecar, ignored);
}

std::string options_text(bool extra_token, bool drop_last_partial) {
  return fmt::format("{} extra token, last partial sample {}", extra_token ? "an" : "no",
                     drop_last_partial ? "dropped" : "kept");
}

/// One look at a place. The functions that return text return what makes the cache unusable.
class PlaceLook {
 public:
  PlaceLook(const GptIndexCacheFiles& files, CacheSource* source)
      : files_(files), source_(source), request_(source->request()) {}

  Result<PlaceFinding> look();

 private:
  static PlaceFinding unusable(std::string why) {
    return {.cache = {}, .unusable = std::move(why)};
  }

  std::string check_description() const;
  Result<std::string> check_sidecar();
  std::string difference_of_request() const;
  Result<std::string> difference_of_data();
  Result<PlaceFinding> open_index(const LengthTotals& totals);
  /// The sizes of an index that reblend() has made, in place of those that the request gives.
  Status take_reblended(GptIndexPlan& plan) const;
  PlaceFinding found(GptIndex index, const GptIndexPlan& plan, const IndexDigests& digests,
                     bool is_deferred) const;
  /// Gives the sidecar the .idx file's new time.
  Status refresh_sidecar();

  const GptIndexCacheFiles& files_;
  CacheSource* const source_;
  const GptIndexCacheRequest& request_;
  std::optional<CacheSidecar> sidecar_;
  bool is_touched_ = false;  // the .idx has another time than the sidecar
};

Result<PlaceFinding> PlaceLook::look() {
  std::error_code ignored;
  std::string missing;
  bool has_any = false;
  for (const std::string& part : files_.parts()) {
    const bool is_there = fs::is_regular_file(part, ignored);
    has_any = has_any || is_there;
    if (!is_there && missing.empty()) missing = part;
  }
  if (!has_any) return PlaceFinding();
  if (!missing.empty()) return unusable(missing + ": missing beside the other files of its cache");
  std::string why = check_description();
  if (!why.empty()) return unusable(std::move(why));
  MEG_ASSIGN_OR_RETURN(why, check_sidecar());
  if (!why.empty()) return unusable(std::move(why));
  if (sidecar_.has_value()) return open_index(sidecar_->lengths);
  MEG_ASSIGN_OR_RETURN(const LengthTotals totals, source_->totals());
  return open_index(totals);
}

std::string PlaceLook::check_description() const {
  if (files_.description.empty()) return {};
  const auto holds = holds_text(files_.description, request_.description);
  if (!holds.has_value()) return holds.error().message();
  if (*holds) return {};
  return files_.description + ": expected the description of this dataset, found another text";
}

Result<std::string> PlaceLook::check_sidecar() {
  auto sidecar = read_sidecar(files_.sidecar);
  if (!sidecar.has_value()) {
    // Other programs write none.
    if (sidecar.error().code() == StatusCode::kNotFound) return std::string();
    return sidecar.error().message();
  }
  sidecar_ = std::move(*sidecar);
  const std::string difference = difference_of_request();
  if (!difference.empty()) return files_.sidecar + ": " + difference;
  return difference_of_data();
}

std::string PlaceLook::difference_of_request() const {
  const dataset::SequenceRange built = sidecar_->sequences, asked = request_.range;
  if (built.begin != asked.begin || built.end != asked.end) {
    return fmt::format("expected a cache of the sequences [{}, {}), found one of [{}, {})",
                       asked.begin, asked.end, built.begin, built.end);
  }
  if (sidecar_->extra_token != request_.extra_token ||
      sidecar_->drop_last_partial != request_.drop_last_partial) {
    return fmt::format("expected a cache with {}; found one with {}",
                       options_text(request_.extra_token, request_.drop_last_partial),
                       options_text(sidecar_->extra_token, sidecar_->drop_last_partial));
  }
  return {};
}

Result<std::string> PlaceLook::difference_of_data() {
  MEG_ASSIGN_OR_RETURN(const IdxStamp stamp, source_->stamp());
  const IdxStamp& built = sidecar_->idx;
  const std::string& path = source_->dataset().idx().path();
  if (built.size != stamp.size) {
    return fmt::format("{}: changed since the cache was built: it had {} bytes, now {}", path,
                       built.size, stamp.size);
  }
  if (built.xxh3 != stamp.xxh3) return path + ": changed since the cache was built";
  // A copy or a `touch` changes the time alone: then the lengths decide, which takes one pass over
  // them, and the sidecar gets the new time.
  if (built.mtime_ns == stamp.mtime_ns) return std::string();
  MEG_ASSIGN_OR_RETURN(const LengthTotals totals, source_->totals());
  if (sidecar_->lengths.xxh3 != totals.xxh3) {
    return path + ": sequence lengths changed since the cache was built";
  }
  is_touched_ = true;
  return std::string();
}

Result<PlaceFinding> PlaceLook::open_index(const LengthTotals& totals) {
  MEG_ASSIGN_OR_RETURN(GptIndexPlan plan, source_->plan(totals));
  const bool is_reblended = sidecar_.has_value() && sidecar_->reblended.has_value();
  if (is_reblended) MEG_RETURN_IF_ERROR(take_reblended(plan));
  if (request_.defer && sidecar_.has_value()) {
    MEG_RETURN_IF_ERROR(refresh_sidecar());
    return found(GptIndex(), plan, sidecar_->indices, true);
  }
  auto opened = open_cached_index(files_.indices, plan);
  if (!opened.has_value()) return unusable(opened.error().message());
  if (sidecar_.has_value() && sidecar_->indices != opened->digests) {
    return unusable(files_.sidecar + ": expected the cache it was written with, found other files");
  }
  // What another program may have made otherwise: an index of reblend() has its digests.
  const auto difference =
      is_reblended ? std::nullopt
                   : difference_at_ends(opened->index, plan, source_->dataset().sequence_lengths(),
                                        request_.range, totals.tokens);
  if (difference.has_value()) return unusable(files_.indices.sample_index + ": " + *difference);
  MEG_RETURN_IF_ERROR(refresh_sidecar());
  return found(std::move(opened->index), plan, opened->digests, false);
}

Status PlaceLook::take_reblended(GptIndexPlan& plan) const {
  const auto& [epochs, documents, rows, samples, first_epoch] = *sidecar_->reblended;
  if (std::min({epochs, documents, rows, samples, first_epoch}) < 0) {
    return make_error(StatusCode::kCorruption, "{}: reblended: expected sizes of at least 0",
                      files_.sidecar);
  }
  plan.epochs = epochs;
  plan.samples = samples;
  plan.samples_before_last_epoch.reset();
  plan.stored = {.documents = documents, .rows = rows, .first_epoch = first_epoch};
  return {};
}

PlaceFinding PlaceLook::found(GptIndex index, const GptIndexPlan& plan, const IndexDigests& digests,
                              bool is_deferred) const {
  return {.cache = GptIndexCache{.index = std::move(index),
                                 .plan = plan,
                                 .outcome = CacheOutcome::kFound,
                                 .reason = {},
                                 .files = files_,
                                 .open = reopening(files_.indices, plan, digests),
                                 .is_deferred = is_deferred},
          .unusable = {}};
}

Status PlaceLook::refresh_sidecar() {
  if (!is_touched_) return Status();
  MEG_ASSIGN_OR_RETURN(const IdxStamp stamp, source_->stamp());
  const IdxStamp kept = stamp_to_keep(stamp);
  if (kept.mtime_ns == sidecar_->idx.mtime_ns) return Status();
  sidecar_->idx = kept;
  // Under the cache's lock, so that the folder, which may hold tens of thousands of caches, need
  // not be listed for each of them. Whoever holds the lock writes a new sidecar; and where it
  // cannot be written, the next look reads the lengths again.
  const auto lock = try_lock_cache(files_.sidecar, {&files_.sidecar, 1});
  if (!lock.has_value() || !lock->has_value()) return Status();
  (void)write_sidecar(io::AtomicFile::create_under_lock(files_.sidecar), *sidecar_);
  return Status();
}

Result<io::AtomicFile> description_file(const std::string& path, const std::string& text) {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create_under_lock(path));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file;
}

Result<GptIndexCache> commit(WrittenCache* written) {
  std::vector<io::AtomicFile*> parts;
  for (io::AtomicFile& part : written->parts) parts.push_back(&part);
  // The group has flushed the files of all its caches together.
  MEG_RETURN_IF_ERROR(io::AtomicFile::commit_all(parts, io::AtomicFile::Flush::kNothing));
  MEG_ASSIGN_OR_RETURN(CachedIndex opened,
                       open_cached_index(written->files.indices, written->plan));
  written->sidecar.indices = opened.digests;
  MEG_RETURN_IF_ERROR(
      write_sidecar(io::AtomicFile::create_under_lock(written->files.sidecar), written->sidecar));
  return GptIndexCache{.index = std::move(opened.index),
                       .plan = written->plan,
                       .outcome = CacheOutcome::kBuilt,
                       .reason = {},
                       .files = written->files,
                       .open = reopening(written->files.indices, written->plan, opened.digests)};
}

}  // namespace

Result<PlaceFinding> look_at_place(const GptIndexCacheFiles& files, CacheSource* source) {
  return PlaceLook(files, source).look();
}

int64_t WrittenCache::bytes() const {
  constexpr int64_t kDocumentBytes = 4, kSampleBytes = 24;
  return plan.documents() * kDocumentBytes + plan.samples * kSampleBytes;
}

Result<WrittenCache> write_for_place(const GptIndexCacheFiles& files, CacheSource* source) {
  remove_cache(files);
  // The sidecar goes too, because it would otherwise speak for files that it does not know.
  const GptIndexCacheRequest& request = source->request();
  MEG_ASSIGN_OR_RETURN(const IdxStamp stamp, source->stamp());
  MEG_ASSIGN_OR_RETURN(const LengthTotals totals, source->totals());
  MEG_ASSIGN_OR_RETURN(const GptIndexPlan plan, source->plan(totals));
  MEG_ASSIGN_OR_RETURN(std::vector<io::AtomicFile> parts,
                       write_gpt_index_files(plan, source->dataset(), request.range, request.seed,
                                             files.indices, request.cancelled));
  if (!files.description.empty()) {
    MEG_ASSIGN_OR_RETURN(io::AtomicFile description,
                         description_file(files.description, request.description));
    parts.push_back(std::move(description));
  }
  return WrittenCache{.files = files,
                      .parts = std::move(parts),
                      .plan = plan,
                      .sidecar = {.idx = stamp_to_keep(stamp),
                                  .sequences = request.range,
                                  .lengths = totals,
                                  .extra_token = request.extra_token,
                                  .drop_last_partial = request.drop_last_partial,
                                  .indices = {}}};
}

Result<GptIndexCache> put_in_place(WrittenCache* written) {
  auto cache = commit(written);
  if (!cache.has_value()) remove_cache(written->files);
  return cache;
}

}  // namespace meg::samples
