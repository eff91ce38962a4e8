#include "libmeg/checkpoint/verify/internal/scan_findings.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "libmeg/checkpoint/container/zip/internal/claimed_crc.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

bool is_nan(DType dtype, const std::byte* element) {
  return is_scannable(dtype) && std::isnan(widened_element(dtype, element));
}

/// Turns findings into problems, storages first: what a damaged one holds is not judged.
class ScanReporter {
 public:
  explicit ScanReporter(const TensorScanOptions& options) : options_(options) {}

  void report_group(const ScanGroup& group, const GroupFindings& findings);
  void report_storage(const StorageFinding& finding);

  std::vector<Problem> take() { return std::move(problems_); }

 private:
  void report_crc(const TorchFile& file, int storage, uint32_t found, const std::string& name);
  void report_unreadable(const TorchFile& file, const Status& error);
  void report_values(const ScannedTensor& tensor, const TensorFinding& finding);
  void report_relation(const ScanGroup& group, const TensorRelation& relation,
                       const RelationFinding& finding);

  bool is_damaged(const ScannedTensor& tensor) const {
    return damaged_.count({tensor.file.get(), tensor.view.storage}) > 0;
  }

  const TensorScanOptions& options_;
  std::vector<Problem> problems_;
  std::set<std::pair<const TorchFile*, int>> damaged_;
  std::set<const TorchFile*> unreadable_;
};

void ScanReporter::report_group(const ScanGroup& group, const GroupFindings& findings) {
  if (!findings.status.ok()) return report_unreadable(*group.tensors.front().file, findings.status);
  if (options_.check_crcs) {
    for (size_t i = 0; i < group.tensors.size(); ++i) {
      // Only where the tensor has the storage to itself and whole is the CRC of what was read that
      // of the storage.
      const ScannedTensor& tensor = group.tensors[i];
      if (covers_storage(tensor)) {
        report_crc(*tensor.file, tensor.view.storage, findings.tensors[i].crc, tensor.name);
      }
    }
  }
  for (size_t i = 0; i < group.tensors.size(); ++i) {
    if (!is_damaged(group.tensors[i])) report_values(group.tensors[i], findings.tensors[i]);
  }
  for (size_t i = 0; i < group.relations.size(); ++i) {
    report_relation(group, group.relations[i], findings.relations[i]);
  }
}

void ScanReporter::report_storage(const StorageFinding& finding) {
  if (!finding.status.ok()) return report_unreadable(*finding.file, finding.status);
  report_crc(*finding.file, finding.storage, finding.crc, "");
}

void ScanReporter::report_crc(const TorchFile& file, int storage, uint32_t found,
                              const std::string& name) {
  const TorchStorage& claimed = file.storages()[static_cast<size_t>(storage)];
  // Several tensors may be views of one storage, which is reported once.
  if (found == *claimed.crc || !damaged_.insert({&file, storage}).second) return;
  problems_.push_back(
      {.check = CheckpointCheck::kCrc,
       .file = file.path(),
       .subject = name.empty() ? fmt::format("data/{}", claimed.key) : name,
       .expected = fmt::format("CRC-32 {:08x} of {} bytes", *claimed.crc, claimed.bytes),
       .found = fmt::format("{:08x}", found),
       .likely_cause = "bytes changed after the file was written; torch.load does not notice"});
}

void ScanReporter::report_unreadable(const TorchFile& file, const Status& error) {
  if (!unreadable_.insert(&file).second) return;
  problems_.push_back(problem_of(CheckpointCheck::kFile, file.path(), error));
}

void ScanReporter::report_values(const ScannedTensor& tensor, const TensorFinding& finding) {
  const FloatScan& floats = finding.floats;
  if (options_.check_finite && floats.not_finite > 0) {
    problems_.push_back({.check = CheckpointCheck::kNotFinite,
                         .file = tensor.file->path(),
                         .subject = tensor.name,
                         .index = index_of(floats.first_not_finite, tensor.view.shape),
                         .expected = "a finite number",
                         .found = finding.not_finite_text,
                         .count = floats.not_finite,
                         .likely_cause = "training diverged before this was saved"});
  }
  if (tensor.non_negative && floats.negative > 0) {
    problems_.push_back({.check = CheckpointCheck::kNegative,
                         .file = tensor.file->path(),
                         .subject = tensor.name,
                         .index = index_of(floats.first_negative, tensor.view.shape),
                         .expected = "0 or more, a mean of squares",
                         .found = finding.negative_text,
                         .count = floats.negative});
  }
}

void ScanReporter::report_relation(const ScanGroup& group, const TensorRelation& relation,
                                   const RelationFinding& finding) {
  const ScannedTensor& first = group.tensors[relation.first];
  const ScannedTensor& second = group.tensors[relation.second];
  // A damaged storage differs from its replicas everywhere; its CRC has been reported and says it
  // all.
  if (finding.count == 0 || is_damaged(first) || is_damaged(second)) return;
  const bool rounded = relation.kind == TensorRelation::Kind::kRounded;
  const std::string whose =
      rounded ? fmt::format("{}, its master rounded", finding.expected)
              : fmt::format("{} as in {}{}", finding.expected, first.file->path(),
                            first.name == second.name ? "" : fmt::format(" ({})", first.name));
  problems_.push_back({.check = relation.check,
                       .file = second.file->path(),
                       .subject = second.name,
                       .index = index_of(finding.first, second.view.shape),
                       .expected = whose,
                       .found = finding.found,
                       .count = finding.count,
                       .likely_cause = relation.likely_cause});
}

}  // namespace

void TensorFinding::append(const TensorFinding& next, uint64_t bytes_of_next) {
  if (floats.not_finite == 0) not_finite_text = next.not_finite_text;
  if (floats.negative == 0) negative_text = next.negative_text;
  floats.add(next.floats);
  crc = io::crc32_combine(crc, next.crc, bytes_of_next);
}

void RelationFinding::append(const RelationFinding& next) {
  if (count == 0) {
    *this = next;
  } else {
    count += next.count;
  }
}

bool covers_storage(const ScannedTensor& tensor) {
  return claimed_crc(*tensor.file, tensor.view).has_value();
}

RelationFinding compare_runs(DType dtype, std::span<const std::byte> expected,
                             std::span<const std::byte> found, int64_t first_element) {
  RelationFinding finding;
  // The usual case at the speed of memory; only runs that differ are compared element by element.
  // NaNs are equal to each other whatever their bits: what made them is reported elsewhere.
  if (found.empty() || std::memcmp(expected.data(), found.data(), found.size()) == 0) {
    return finding;
  }
  const auto size = static_cast<size_t>(dtype_size(dtype));
  for (size_t at = 0; at < found.size(); at += size) {
    const std::byte* a = expected.data() + at;
    const std::byte* b = found.data() + at;
    if (std::memcmp(a, b, size) == 0 || (is_nan(dtype, a) && is_nan(dtype, b))) continue;
    if (finding.count++ == 0) {
      finding.first = first_element + static_cast<int64_t>(at / size);
      finding.expected = element_text(dtype, a);
      finding.found = element_text(dtype, b);
    }
  }
  return finding;
}

std::vector<Problem> scan_problems(std::span<const ScanGroup> groups,
                                   std::span<const GroupFindings> findings,
                                   std::span<const StorageFinding> storages,
                                   const TensorScanOptions& options) {
  ScanReporter reporter(options);
  for (size_t i = 0; i < groups.size(); ++i) reporter.report_group(groups[i], findings[i]);
  for (const StorageFinding& storage : storages) reporter.report_storage(storage);
  return reporter.take();
}

}  // namespace meg::checkpoint
