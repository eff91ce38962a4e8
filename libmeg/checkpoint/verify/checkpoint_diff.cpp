#include "libmeg/checkpoint/verify/checkpoint_diff.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "libmeg/checkpoint/dialects/mp_rank/check_tied_copy.h"
#include "libmeg/checkpoint/transfer/merged_reader.h"
#include "libmeg/checkpoint/verify/checkpoint_problem.h"
#include "libmeg/checkpoint/verify/internal/diff_state.h"
#include "libmeg/checkpoint/verify/internal/parallel_scan.h"

// Compares two models element by element, whatever the layout of either. A parameter of both sides
// is cut into tasks of four million elements; each task reads tiles of both merged tensors and
// compares them in the wider of the two types, so that memory is bounded by the number of threads
// and not by the model.

namespace meg::checkpoint {
namespace {

/// Bytes that a worker reads of each side before it compares them.
constexpr int64_t kSideBytes = int64_t{1} << 19;
/// Elements that are one task.
constexpr int64_t kTaskElements = int64_t{1} << 22;

/// One kind of state of a parameter in both checkpoints, and how far it is compared.
struct Pair {
  const LogicalParameter* a = nullptr;
  const LogicalParameter* b = nullptr;
  const LogicalTensor* a_tensor = nullptr;
  const LogicalTensor* b_tensor = nullptr;
  int64_t elements = 0;       ///< Compared at all.
  int64_t true_elements = 0;  ///< The rest is padding.
};

struct Task {
  size_t pair = 0;
  int64_t begin = 0, end = 0;
  ElementDifferences found;
};

int64_t product(std::span<const int64_t> sizes) {
  int64_t result = 1;
  for (const int64_t size : sizes) result *= size;
  return result;
}

class Differ {
 public:
  Differ(const MegatronCheckpoint& a, const MegatronCheckpoint& b,
         const CheckpointDiffOptions& options)
      : a_(a), b_(b), options_(options) {}

  Result<CheckpointDiff> run();

 private:
  Status match_parameters();
  void match_tensors(const LogicalParameter& a, const LogicalParameter& b);
  void add_pair(const LogicalParameter& a, const LogicalTensor& a_tensor, const LogicalParameter& b,
                const LogicalTensor& b_tensor);
  bool is_wanted(const LogicalTensor& tensor) const;
  void note_kinds();
  void add_tasks(size_t pair, int64_t begin, int64_t end);
  Status compare(Task* task, ParallelScan* scan) const;
  void report();

  const MegatronCheckpoint& a_;
  const MegatronCheckpoint& b_;
  const CheckpointDiffOptions& options_;
  CheckpointDiff diff_;
  std::set<std::string> a_kinds_, b_kinds_;  // of any parameter
  std::set<std::string> noted_;
  std::vector<Pair> pairs_;
  std::vector<Task> tasks_;
  int64_t total_bytes_ = 0;
};

Result<CheckpointDiff> Differ::run() {
  // Plain values first: they cost nothing and tell most.
  diff_state(a_, b_, options_.compare_optimizer, &diff_);
  note_kinds();
  MEG_RETURN_IF_ERROR(match_parameters());
  ParallelScan scan(options_.workers, total_bytes_, options_.progress);
  for (const Status& status :
       scan.run(tasks_.size(), [&](size_t i) { return compare(&tasks_[i], &scan); })) {
    MEG_RETURN_IF_ERROR(status);
  }
  if (scan.is_cancelled()) return Status(StatusCode::kCancelled, "cancelled");
  report();
  return std::move(diff_);
}

bool Differ::is_wanted(const LogicalTensor& tensor) const {
  return options_.compare_optimizer || tensor.kind == "weight";
}

/// Kinds of state that one side does not have at all are named once: a converted checkpoint without
/// an optimizer would otherwise list every parameter of the other side.
void Differ::note_kinds() {
  const auto collect = [this](const MegatronCheckpoint& checkpoint, std::set<std::string>* kinds) {
    for (const LogicalParameter& parameter : checkpoint.parameters()) {
      for (const LogicalTensor& tensor : parameter.tensors) {
        if (is_wanted(tensor)) kinds->insert(tensor.kind);
      }
    }
  };
  collect(a_, &a_kinds_);
  collect(b_, &b_kinds_);
  const auto note = [this](const std::set<std::string>& kinds, const std::set<std::string>& others,
                           std::string_view name) {
    std::vector<std::string> missing;
    std::set_difference(kinds.begin(), kinds.end(), others.begin(), others.end(),
                        std::back_inserter(missing));
    if (missing.empty()) return;
    diff_.notes.push_back(
        fmt::format("only {} has {}: not compared", name, fmt::join(missing, ", ")));
  };
  note(a_kinds_, b_kinds_, "A");
  note(b_kinds_, a_kinds_, "B");
  const auto distributed = [this](const MegatronCheckpoint& checkpoint, std::string_view name) {
    if (!options_.compare_optimizer) return;
    if (checkpoint.optimizer().form != OptimizerForm::kDistributed) return;
    diff_.notes.push_back(
        fmt::format("{} has a distributed optimizer without distrib_optim.pt: not compared", name));
  };
  distributed(a_, "A");
  distributed(b_, "B");
}

Status Differ::match_parameters() {
  // Quiet: RE2 would print to stderr, which is not the library's.
  const RE2 pattern(options_.name_pattern, RE2::Quiet);
  if (!pattern.ok()) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected a pattern, found {}",
                      options_.name_pattern, pattern.error());
  }
  std::map<std::string_view, const LogicalParameter*> others;
  for (const LogicalParameter& parameter : b_.parameters()) {
    if (RE2::PartialMatch(parameter.name, pattern)) others[parameter.name] = &parameter;
  }
  for (const LogicalParameter& parameter : a_.parameters()) {
    if (!RE2::PartialMatch(parameter.name, pattern)) continue;
    const auto other = others.find(parameter.name);
    if (other == others.end()) {
      diff_.only_in_a.push_back(parameter.name);
      continue;
    }
    ++diff_.parameters;
    match_tensors(parameter, *other->second);
    others.erase(other);
  }
  for (const LogicalParameter& parameter : b_.parameters()) {
    if (others.count(parameter.name) > 0) diff_.only_in_b.push_back(parameter.name);
  }
  return Status();
}

void Differ::match_tensors(const LogicalParameter& a, const LogicalParameter& b) {
  for (const LogicalTensor& tensor : a.tensors) {
    // Noted by note_kinds() already.
    if (b_kinds_.count(tensor.kind) == 0 || !is_wanted(tensor)) continue;
    const LogicalTensor* other = b.tensor(tensor.kind);
    if (other == nullptr) {
      diff_.only_in_a.push_back(fmt::format("{} {}", a.name, tensor.kind));
    } else {
      add_pair(a, tensor, b, *other);
    }
  }
  for (const LogicalTensor& tensor : b.tensors) {
    const bool is_missing = a.tensor(tensor.kind) == nullptr;
    if (is_missing && a_kinds_.count(tensor.kind) > 0 && is_wanted(tensor)) {
      diff_.only_in_b.push_back(fmt::format("{} {}", b.name, tensor.kind));
    }
  }
}

void Differ::add_pair(const LogicalParameter& a, const LogicalTensor& a_tensor,
                      const LogicalParameter& b, const LogicalTensor& b_tensor) {
  std::vector<int64_t> a_shape = a.shape;
  std::vector<int64_t> b_shape = b.shape;
  Pair pair{.a = &a, .b = &b, .a_tensor = &a_tensor, .b_tensor = &b_tensor};
  const bool is_table = a.partition == model::Partition::kVocabulary && !a_shape.empty() &&
                        a_shape.size() == b_shape.size();
  int64_t true_rows = -1;
  // Heights differ with tensor-parallel sizes. Rows that only one side has are padding, as no token
  // has them.
  if (is_table) {
    const int64_t rows = std::min(a_shape[0], b_shape[0]);
    if (a_shape[0] != b_shape[0] && a_tensor.kind == "weight") {
      diff_.notes.push_back(fmt::format("{}: {} rows in A, {} in B: only the first {} are compared",
                                        a.name, a_shape[0], b_shape[0], rows));
    }
    a_shape[0] = b_shape[0] = rows;
    true_rows = std::min(rows, options_.vocab_size.value_or(rows));
  }
  if (a_shape != b_shape) {
    diff_.field_differences.push_back({fmt::format("shape of {} {}", a.name, a_tensor.kind),
                                       shape_text(a.shape), shape_text(b.shape)});
    return;
  }
  if (!are_comparable(a_tensor.dtype, b_tensor.dtype)) {
    diff_.field_differences.push_back({fmt::format("dtype of {} {}", a.name, a_tensor.kind),
                                       std::string(dtype_name(a_tensor.dtype)),
                                       std::string(dtype_name(b_tensor.dtype))});
    return;
  }
  if (a_tensor.dtype != b_tensor.dtype) {
    const std::string text =
        fmt::format("{}: {} in A, {} in B: compared as the wider of the two", a_tensor.kind,
                    dtype_name(a_tensor.dtype), dtype_name(b_tensor.dtype));
    if (noted_.insert(text).second) diff_.notes.push_back(text);
  }
  pair.elements = product(a_shape);
  const int64_t row = is_table ? product(std::span(a_shape).subspan(1)) : 0;
  pair.true_elements = is_table ? true_rows * row : pair.elements;
  const size_t index = pairs_.size();
  pairs_.push_back(pair);
  ++diff_.tensors;
  diff_.elements += pair.elements;
  // Padding apart from the rest, so that a difference there can be a note.
  add_tasks(index, 0, pair.true_elements);
  add_tasks(index, pair.true_elements, pair.elements);
}

void Differ::add_tasks(size_t pair, int64_t begin, int64_t end) {
  const int64_t width =
      dtype_size(pairs_[pair].a_tensor->dtype) + dtype_size(pairs_[pair].b_tensor->dtype);
  total_bytes_ += (end - begin) * width;
  for (; begin < end; begin += kTaskElements) {
    tasks_.push_back(
        {.pair = pair, .begin = begin, .end = std::min(end, begin + kTaskElements), .found = {}});
  }
}

Status Differ::compare(Task* task, ParallelScan* scan) const {
  const Pair& pair = pairs_[task->pair];
  const int64_t a_size = dtype_size(pair.a_tensor->dtype);
  const int64_t b_size = dtype_size(pair.b_tensor->dtype);
  // Tiles of both sides have as many elements, so that the wider type decides how many.
  const int64_t step = std::min(kSideBytes / std::max(a_size, b_size), task->end - task->begin);
  std::vector<std::byte> a_tile(static_cast<size_t>(step * a_size));
  std::vector<std::byte> b_tile(static_cast<size_t>(step * b_size));
  for (int64_t first = task->begin; first < task->end; first += step) {
    const int64_t count = std::min(step, task->end - first);
    const auto a_run = std::span(a_tile).first(static_cast<size_t>(count * a_size));
    const auto b_run = std::span(b_tile).first(static_cast<size_t>(count * b_size));
    MEG_RETURN_IF_ERROR(read_merged(*pair.a, *pair.a_tensor, first, a_run));
    MEG_RETURN_IF_ERROR(read_merged(*pair.b, *pair.b_tensor, first, b_run));
    task->found.append(compare_elements(pair.a_tensor->dtype, a_run, pair.b_tensor->dtype, b_run,
                                        first, options_.tolerance));
    MEG_RETURN_IF_ERROR(scan->advance(a_run.size() + b_run.size()));
  }
  return Status();
}

void Differ::report() {
  std::vector<ElementDifferences> differences(pairs_.size());
  std::vector<ElementDifferences> in_padding(pairs_.size());
  // Tasks are in the order of the elements, so the first difference of a tensor is that of its
  // first task with one.
  for (const Task& task : tasks_) {
    const bool is_padding = task.begin >= pairs_[task.pair].true_elements;
    (is_padding ? in_padding : differences)[task.pair].append(task.found);
  }
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const Pair& pair = pairs_[i];
    if (in_padding[i].count > 0) {
      diff_.notes.push_back(fmt::format("{} {}: {} elements of the padding differ", pair.a->name,
                                        pair.a_tensor->kind, in_padding[i].count));
    }
    if (differences[i].count == 0) continue;
    diff_.tensor_differences.push_back({.name = pair.a->name,
                                        .kind = pair.a_tensor->kind,
                                        .index = index_of(differences[i].first, pair.a->shape),
                                        .elements = pair.true_elements,
                                        .found = std::move(differences[i])});
  }
}

}  // namespace

Result<CheckpointDiff> diff_checkpoints(const MegatronCheckpoint& a, const MegatronCheckpoint& b,
                                        const CheckpointDiffOptions& options) {
  // Copies are no parameters of their own: those that are not equal would not be compared.
  for (const MegatronCheckpoint* side : {&a, &b}) MEG_RETURN_IF_ERROR(check_tied_copy(*side));
  return Differ(a, b, options).run();
}

}  // namespace meg::checkpoint
