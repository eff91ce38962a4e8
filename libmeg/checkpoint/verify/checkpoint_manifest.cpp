#include "libmeg/checkpoint/verify/checkpoint_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/check_tied_copy.h"

// Digests of whole tensors with their names, to find out later whether a checkpoint still has the
// same values, in whatever layout. Rows that pad a vocabulary depend on the layout and are left
// out, or digested by blocks that can be compared one by one.

namespace meg::checkpoint {
namespace {

bool is_wanted(std::string_view kind, const ManifestOptions& options) {
  return options.include_optimizer || kind == "weight";
}

bool is_table(const LogicalParameter& parameter) {
  return parameter.partition == model::Partition::kVocabulary && !parameter.shape.empty();
}

std::string full_name(std::string_view name, std::string_view kind) {
  return fmt::format("{} {}", name, kind);
}

/// Digests that claim to be of the whole state must be: without distrib_optim.pt the moments would
/// be missing unnoticed.
Status check_is_whole(const MegatronCheckpoint& checkpoint, const ManifestOptions& options) {
  const bool is_distributed = checkpoint.optimizer().form == OptimizerForm::kDistributed;
  if (!options.include_optimizer || !is_distributed) return Status();
  return make_error(StatusCode::kNotFound,
                    "{}: expected the distributed optimizer's state in distrib_optim.pt, found no "
                    "such file; `include_optimizer = false` skips it",
                    checkpoint.folder().folder);
}

class ManifestChecker {
 public:
  ManifestChecker(const MegatronCheckpoint& checkpoint, const Manifest& manifest,
                  const ManifestOptions& options)
      : checkpoint_(checkpoint), manifest_(manifest), options_(options) {}

  Result<ManifestReport> run();

 private:
  void match(const LogicalParameter& parameter, const LogicalTensor& tensor);
  bool fits(const LogicalParameter& parameter, const LogicalTensor& tensor,
            const ManifestTensor& expected);
  void compare(const DigestRequest& request, const ManifestTensor& expected,
               const std::vector<std::string>& found);
  void compare_blocks(const DigestRequest& request, const ManifestTensor& expected,
                      const std::vector<std::string>& found);
  void report_missing();

  void add_problem(std::string tensor, std::string_view check, std::string expected,
                   std::string found) {
    report_.problems.push_back({.check = check,
                                .subject = std::move(tensor),
                                .expected = std::move(expected),
                                .found = std::move(found)});
  }

  void add_note(std::string note) {
    if (noted_.insert(note).second) report_.notes.push_back(std::move(note));
  }

  const MegatronCheckpoint& checkpoint_;
  const Manifest& manifest_;
  const ManifestOptions& options_;
  ManifestReport report_;
  std::set<std::string> noted_;
  std::map<std::pair<std::string_view, std::string_view>, const ManifestTensor*> left_;
  std::vector<DigestRequest> requests_;
  std::vector<const ManifestTensor*> expected_;  // of each request
};

Result<ManifestReport> ManifestChecker::run() {
  for (const ManifestTensor& tensor : manifest_.tensors) {
    if (is_wanted(tensor.kind, options_)) left_[{tensor.name, tensor.kind}] = &tensor;
  }
  for (const LogicalParameter& parameter : checkpoint_.parameters()) {
    for (const LogicalTensor& tensor : parameter.tensors) {
      if (is_wanted(tensor.kind, options_)) match(parameter, tensor);
    }
  }
  report_missing();
  MEG_ASSIGN_OR_RETURN(const std::vector<std::vector<std::string>> digests,
                       digest_tensors(checkpoint_, requests_, options_.digest));
  for (size_t i = 0; i < requests_.size(); ++i) compare(requests_[i], *expected_[i], digests[i]);
  report_.tensors = static_cast<int64_t>(requests_.size());
  return std::move(report_);
}

/// Finds the manifest's tensor for one of the checkpoint and asks for the same digests.
void ManifestChecker::match(const LogicalParameter& parameter, const LogicalTensor& tensor) {
  const auto found = left_.find({parameter.name, tensor.kind});
  if (found == left_.end()) {
    add_problem(full_name(parameter.name, tensor.kind), "extra", "no such tensor",
                fmt::format("{} {}", dtype_name(tensor.dtype), shape_text(parameter.shape)));
    return;
  }
  const ManifestTensor& expected = *found->second;
  left_.erase(found);
  if (!fits(parameter, tensor, expected)) return;
  DigestRequest request{.parameter = &parameter, .tensor = &tensor};
  if (is_table(parameter) && expected.block_rows == 0) request.rows = expected.shape[0];
  if (is_table(parameter)) request.block_rows = expected.block_rows;
  request.as_dtype = expected.dtype;
  requests_.push_back(request);
  expected_.push_back(&expected);
}

/// Whether shape and dtype allow a comparison.
bool ManifestChecker::fits(const LogicalParameter& parameter, const LogicalTensor& tensor,
                           const ManifestTensor& expected) {
  // A checkpoint that was converted to fp32 has the values of its 16-bit original: narrowed, they
  // give the same digests.
  const bool widens = tensor.dtype == DType::kFloat32 &&
                      (expected.dtype == DType::kFloat16 || expected.dtype == DType::kBFloat16);
  std::vector<int64_t> shape = parameter.shape;
  if (is_table(parameter) && shape.size() == expected.shape.size()) {
    const bool has_rows = expected.block_rows > 0 || shape[0] >= expected.shape[0];
    if (has_rows) shape[0] = expected.shape[0];
  }
  if (shape == expected.shape && (tensor.dtype == expected.dtype || widens)) {
    if (widens) {
      add_note(fmt::format("{}: float32 here, {} in the manifest: compared as the latter",
                           tensor.kind, dtype_name(expected.dtype)));
    }
    return true;
  }
  add_problem(full_name(parameter.name, tensor.kind), "changed",
              fmt::format("{} {}", dtype_name(expected.dtype), shape_text(expected.shape)),
              fmt::format("{} {}", dtype_name(tensor.dtype), shape_text(parameter.shape)));
  return false;
}

void ManifestChecker::compare(const DigestRequest& request, const ManifestTensor& expected,
                              const std::vector<std::string>& found) {
  const std::string name = full_name(expected.name, expected.kind);
  // The digest was given up: see TensorDigester.
  if (found.empty()) {
    return add_problem(name, "changed", fmt::format("values of {}", dtype_name(expected.dtype)),
                       "values that it cannot hold");
  }
  if (request.block_rows > 0) return compare_blocks(request, expected, found);
  if (expected.digests == found) return;
  add_problem(name, "changed",
              fmt::format("digest {}", expected.digests.empty() ? "" : expected.digests.front()),
              found.front());
}

/// Blocks that both have in full; the rows past the shorter table are padding.
void ManifestChecker::compare_blocks(const DigestRequest& request, const ManifestTensor& expected,
                                     const std::vector<std::string>& found) {
  const int64_t rows = request.parameter->shape[0];
  const int64_t expected_rows = expected.shape[0];
  const int64_t common = std::min(rows, expected_rows);
  if (rows != expected_rows) {
    add_note(fmt::format("{}: {} rows here, {} in the manifest: the first {} were compared",
                         expected.name, rows, expected_rows, common));
  }
  const int64_t blocks = (expected_rows - 1) / expected.block_rows + 1;
  if (static_cast<int64_t>(expected.digests.size()) != blocks) {
    return add_problem(full_name(expected.name, expected.kind), "changed",
                       fmt::format("{} digests in the manifest", blocks),
                       std::to_string(expected.digests.size()));
  }
  for (size_t i = 0; i < std::min(found.size(), expected.digests.size()); ++i) {
    const int64_t begin = static_cast<int64_t>(i) * expected.block_rows;
    // A block with padding in it differs between heights without meaning anything.
    const bool is_full = rows == expected_rows || begin + expected.block_rows <= common;
    if (!is_full || begin >= options_.vocab_size.value_or(common)) break;
    if (found[i] == expected.digests[i]) continue;
    add_problem(full_name(expected.name, expected.kind), "changed",
                fmt::format("digest {} of rows {} to {}", expected.digests[i], begin,
                            std::min(begin + expected.block_rows, common) - 1),
                found[i]);
    return;
  }
}

/// Tensors of the manifest that the checkpoint lacks. A kind that it lacks wholly is named once, as
/// it has one cause.
void ManifestChecker::report_missing() {
  std::set<std::string_view> kinds;
  for (const LogicalParameter& parameter : checkpoint_.parameters()) {
    for (const LogicalTensor& tensor : parameter.tensors) kinds.insert(tensor.kind);
  }
  std::map<std::string_view, int64_t> missing_kinds;
  for (const auto& [name, tensor] : left_) {
    if (kinds.count(tensor->kind) > 0) {
      add_problem(full_name(tensor->name, tensor->kind), "missing",
                  fmt::format("{} {}", dtype_name(tensor->dtype), shape_text(tensor->shape)),
                  "no such tensor");
    } else {
      ++missing_kinds[tensor->kind];
    }
  }
  for (const auto& [kind, count] : missing_kinds) {
    add_problem(std::string(kind), "missing", fmt::format("it of {} parameters", count), "none");
  }
}

}  // namespace

Result<Manifest> make_manifest(const MegatronCheckpoint& checkpoint,
                               const ManifestOptions& options) {
  MEG_RETURN_IF_ERROR(check_is_whole(checkpoint, options));
  MEG_RETURN_IF_ERROR(check_tied_copy(checkpoint));
  Manifest manifest;
  manifest.iteration = checkpoint.iteration();
  manifest.vocab_size = options.vocab_size;
  std::vector<DigestRequest> requests;
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    for (const LogicalTensor& tensor : parameter.tensors) {
      if (!is_wanted(tensor.kind, options)) continue;
      DigestRequest request{.parameter = &parameter, .tensor = &tensor};
      ManifestTensor made{.name = parameter.name,
                          .kind = tensor.kind,
                          .dtype = tensor.dtype,
                          .shape = parameter.shape};
      if (is_table(parameter) && options.vocab_size.has_value()) {
        if (*options.vocab_size > parameter.shape[0]) {
          return make_error(StatusCode::kInvalidArgument,
                            "{}: expected at most {} tokens, the rows of {}, found {}",
                            checkpoint.folder().folder, parameter.shape[0], parameter.name,
                            *options.vocab_size);
        }
        made.shape[0] = request.rows = *options.vocab_size;
      } else if (is_table(parameter)) {
        // Without the true size of the vocabulary, a table is digested by blocks of the rows that
        // padding is a multiple of: another tensor-parallel size pads to another height, and the
        // blocks that both have still compare.
        made.block_rows = request.block_rows = checkpoint.config().make_vocab_size_divisible_by;
      }
      request.as_dtype = tensor.dtype;
      requests.push_back(request);
      manifest.tensors.push_back(std::move(made));
    }
  }
  MEG_ASSIGN_OR_RETURN(std::vector<std::vector<std::string>> digests,
                       digest_tensors(checkpoint, requests, options.digest));
  for (size_t i = 0; i < requests.size(); ++i) manifest.tensors[i].digests = std::move(digests[i]);
  return manifest;
}

Result<ManifestReport> check_manifest(const MegatronCheckpoint& checkpoint,
                                      const Manifest& manifest, const ManifestOptions& options) {
  MEG_RETURN_IF_ERROR(check_is_whole(checkpoint, options));
  MEG_RETURN_IF_ERROR(check_tied_copy(checkpoint));
  return ManifestChecker(checkpoint, manifest, options).run();
}

}  // namespace meg::checkpoint
