#include "tools/dataset_inspect/dataset_inspect_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/dataset/provenance.h"
#include "libmeg/samples/batches/sample_trace.h"
#include "libmeg/samples/gpt_datasets.h"
#include "tools/common/json_output.h"
#include "tools/common/report.h"

// Answers --trace: the samples of a step, or the steps that saw a document. The run's datasets are
// built as pretrain_gpt would build them, from its flags, and the samplers' arithmetic is followed;
// nothing is trained or logged.

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

/// A dataset that samples come from.
struct Source {
  dataset::IndexedDataset data;
  std::optional<dataset::Provenance> provenance;
};

/// A run's training set with what its samples come from.
struct Training {
  std::unique_ptr<samples::SampleDataset> samples;
  std::vector<std::string> prefixes;  ///< samples->prefixes()
  std::string idx_cache;              ///< --object-storage-cache-path
  samples::TraceSchedule schedule;
  std::map<size_t, Source> sources = {};  ///< Those that were asked for, by number.

  /// Opened when it is asked for: a blend may have more datasets than a process can map.
  Result<const Source*> source(size_t number);
};

Result<const Source*> Training::source(size_t number) {
  if (const auto found = sources.find(number); found != sources.end()) return &found->second;
  const std::string& prefix = prefixes[number];
  MEG_ASSIGN_OR_RETURN(dataset::IndexedDataset data,
                       dataset::IndexedDataset::open(prefix, {.idx_cache = idx_cache}));
  MEG_ASSIGN_OR_RETURN(auto provenance, dataset::Provenance::open_beside(prefix));
  const auto added = sources.try_emplace(
      number, Source{.data = std::move(data), .provenance = std::move(provenance)});
  return &added.first->second;
}

bool names_data(const DataFlags& data) {
  const auto given = [](const std::vector<std::string>& path) { return !path.empty(); };
  return given(data.data_path) || data.data_args_path.has_value() ||
         data.per_split_data_args_path.has_value() ||
         std::any_of(data.per_split_path.begin(), data.per_split_path.end(), given);
}

Result<Training> open_training(const dataset::IndexedDataset& dataset, DataFlags data) {
  if (data.mock_data) {
    return Status(StatusCode::kInvalidArgument, "--mock-data: there are no documents to trace");
  }
  // Samples of "cyclic" depend on the epoch's permutation, "external" on the caller's code.
  if (data.dataloader_type != "single") {
    return make_error(StatusCode::kUnsupported,
                      "--dataloader-type {}: tracing is not supported yet", data.dataloader_type);
  }
  if (!data.micro_batch_size.has_value()) {
    return Status(StatusCode::kInvalidArgument, "--micro-batch-size is required with --trace");
  }
  // The dataset that is inspected is what the run trains on, unless flags say otherwise.
  if (!names_data(data)) data.data_path = {dataset.prefix()};
  MEG_ASSIGN_OR_RETURN(samples::DataRun run, resolve_data_flags(data, environment_world_size()));
  for (const std::string& text : run.notes) note(text);
  MEG_ASSIGN_OR_RETURN(samples::GptDatasets datasets, samples::build_gpt_datasets(run.config));
  std::unique_ptr<samples::SampleDataset>& train =
      datasets.splits[samples::split_number(samples::Split::kTrain)];
  if (train == nullptr) {
    return Status(StatusCode::kInvalidArgument, "the run has no training samples to trace");
  }
  std::vector<std::string> prefixes = train->prefixes();
  Training training{.samples = std::move(train),
                    .prefixes = std::move(prefixes),
                    .idx_cache = run.config.object_storage_cache_path.value_or(""),
                    .schedule = {.batches = run.batches,
                                 .type = run.dataloader_type,
                                 .micro_batch_size = run.micro_batch_size,
                                 .data_parallel_size = run.data_parallel_size,
                                 .steps = run.train_iters}};
  if (training.schedule.steps == 0) {
    training.schedule.steps = run.batches.steps_for(training.samples->size());
  }
  return training;
}

/// The document that holds a sequence; those without sequences hold none.
/// document_indices has the first sequence of each document: the last start that is no later than
/// the sequence. Of several documents with one start all but the last are empty.
int64_t document_of(const dataset::IndexedDataset& dataset, int64_t sequence) {
  const dataset::LittleEndianArray<int64_t> starts = dataset.document_indices();
  int64_t first = 0;
  int64_t count = dataset.document_count();
  while (count > 0) {
    const int64_t half = count / 2;
    if (starts[first + half] <= sequence) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first - 1;
}

/// Where a document was read before it was tokenized; null where that is not known.
Result<ordered_json> source_json(const dataset::Provenance& provenance, int64_t document) {
  MEG_ASSIGN_OR_RETURN(const dataset::DocumentPlace place, provenance.place(document));
  if (place.source == dataset::DocumentPlace::kUnknownSource) return ordered_json(nullptr);
  ordered_json source = {{"file", provenance.source(place.source)}};
  if (place.row == dataset::DocumentPlace::kNoRow) {
    source["byte"] = place.at;
  } else {
    source["row_group"] = place.at;
    source["row"] = place.row;
  }
  return source;
}

/// A part of a sample.
Result<ordered_json> part_json(const dataset::IndexedDataset& dataset,
                               const std::optional<dataset::Provenance>& provenance,
                               const samples::SamplePart& part) {
  const int64_t document = document_of(dataset, part.sequence);
  ordered_json object = {{"prefix", dataset.prefix()},
                         {"document", document},
                         {"sequence", part.sequence},
                         {"offset", part.offset},
                         {"length", part.length}};
  if (provenance.has_value()) {
    MEG_ASSIGN_OR_RETURN(object["source"], source_json(*provenance, document));
  }
  return object;
}

/// wanted: the sequences to show.
Result<ordered_json> sample_json(Training& training, const samples::TracedSample& sample,
                                 dataset::SequenceRange wanted) {
  ordered_json object = {{"step", sample.step},
                         {"rank", sample.rank},
                         {"micro_batch", sample.micro_batch},
                         {"sample", sample.sample},
                         {"parts", ordered_json::array()}};
  MEG_ASSIGN_OR_RETURN(const Source* const source,
                       training.source(static_cast<size_t>(sample.source.dataset)));
  for (const samples::SamplePart& part : sample.source.parts) {
    const bool shown =
        part.length > 0 && part.sequence >= wanted.begin && part.sequence < wanted.end;
    if (!shown) continue;
    MEG_ASSIGN_OR_RETURN(ordered_json found, part_json(source->data, source->provenance, part));
    object["parts"].push_back(std::move(found));
  }
  return object;
}

Result<ordered_json> step_json(Training& training, const TraceQuestion& question) {
  const samples::TraceSchedule& schedule = training.schedule;
  const int64_t step = *question.step;
  MEG_ASSIGN_OR_RETURN(const std::vector<samples::TracedSample> samples,
                       samples::trace_step(*training.samples, schedule, step, question.rank));
  const int64_t consumed = schedule.batches.consumed_before(step);
  ordered_json object = {{"step", step},
                         {"steps", schedule.steps},
                         {"consumed_samples", consumed},
                         {"global_batch_size", schedule.batches.batch_size_after(consumed)},
                         {"micro_batch_size", schedule.micro_batch_size},
                         {"data_parallel_size", schedule.data_parallel_size},
                         {"samples", ordered_json::array()}};
  for (const samples::TracedSample& sample : samples) {
    MEG_ASSIGN_OR_RETURN(ordered_json found,
                         sample_json(training, sample, {.begin = 0, .end = INT64_MAX}));
    object["samples"].push_back(std::move(found));
  }
  return object;
}

/// Where the dataset stands among those of the run; a blend may name it more than once.
Result<std::vector<int64_t>> places_of(const dataset::IndexedDataset& dataset,
                                       const Training& training) {
  std::vector<int64_t> places;
  const std::vector<std::string>& prefixes = training.prefixes;
  for (size_t i = 0; i < prefixes.size(); ++i) {
    std::error_code ignored;
    const bool same =
        prefixes[i] == dataset.prefix() ||
        std::filesystem::equivalent(prefixes[i] + ".idx", dataset.idx().path(), ignored);
    if (same) places.push_back(static_cast<int64_t>(i));
  }
  if (!places.empty()) return places;
  return make_error(StatusCode::kInvalidArgument,
                    "PREFIX: expected one of the datasets that the run trains on ({}), found {}",
                    fmt::join(prefixes, ", "), dataset.prefix());
}

Result<ordered_json> document_json(const dataset::IndexedDataset& dataset, Training& training,
                                   int64_t document) {
  MEG_ASSIGN_OR_RETURN(const dataset::SequenceRange range, dataset.document(document));
  MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> places, places_of(dataset, training));
  std::vector<samples::TracedSample> samples;
  for (const int64_t place : places) {
    MEG_ASSIGN_OR_RETURN(
        const std::vector<samples::TracedSample> found,
        samples::trace_sequences(*training.samples, training.schedule, place, range));
    samples.insert(samples.end(), found.begin(), found.end());
  }
  std::sort(samples.begin(), samples.end(),
            [](const auto& a, const auto& b) { return a.sample < b.sample; });
  ordered_json object = {{"prefix", dataset.prefix()},       {"document", document},
                         {"first_sequence", range.begin},    {"sequences", range.end - range.begin},
                         {"steps", training.schedule.steps}, {"samples", ordered_json::array()}};
  for (const samples::TracedSample& sample : samples) {
    MEG_ASSIGN_OR_RETURN(ordered_json found, sample_json(training, sample, range));
    object["samples"].push_back(std::move(found));
  }
  return object;
}

/// What the dataset's own sidecar says of a document, without a run.
Result<ordered_json> origin(const dataset::IndexedDataset& dataset, int64_t document) {
  MEG_ASSIGN_OR_RETURN(const std::optional<dataset::Provenance> provenance,
                       dataset::Provenance::open_beside(dataset.prefix()));
  MEG_RETURN_IF_ERROR(dataset.document(document).status());
  if (!provenance.has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "--micro-batch-size is required with --trace, unless there is {}",
                      dataset::provenance_path(dataset.prefix()));
  }
  ordered_json object = {{"prefix", dataset.prefix()}, {"document", document}};
  MEG_ASSIGN_OR_RETURN(object["source"], source_json(*provenance, document));
  return object;
}

std::string source_text(const ordered_json& object) {
  if (!object.contains("source")) return {};
  const ordered_json& source = object["source"];
  if (source.is_null()) return "source unknown";
  const std::string file = source["file"].get<std::string>();
  if (source.contains("byte")) return fmt::format("{} byte {}", file, source["byte"].dump());
  return fmt::format("{} row group {} row {}", file, source["row_group"].dump(),
                     source["row"].dump());
}

std::string number(const ordered_json& object, const char* field) {
  return fmt::format("{}", object[field].get<int64_t>());
}

void print_parts(const ordered_json& sample, std::string_view lead) {
  bool first = true;
  for (const ordered_json& part : sample["parts"]) {
    const std::string source = source_text(part);
    fmt::print("{}{:>10}  {:>10}  {:>10}  {:>8}  {}{}\n",
               first ? std::string(lead) : std::string(lead.size(), ' '), number(part, "document"),
               number(part, "sequence"), number(part, "offset"), number(part, "length"),
               part["prefix"].get<std::string>(), source.empty() ? "" : "  " + source);
    first = false;
  }
}

void print_samples(const ordered_json& samples) {
  fmt::print("{:>8}  {:>5}  {:>11}  {:>10}  {:>10}  {:>10}  {:>10}  {:>8}  {}\n", "step", "rank",
             "micro-batch", "sample", "document", "sequence", "offset", "length", "prefix");
  for (const ordered_json& sample : samples) {
    print_parts(sample, fmt::format("{:>8}  {:>5}  {:>11}  {:>10}  ", number(sample, "step"),
                                    number(sample, "rank"), number(sample, "micro_batch"),
                                    number(sample, "sample")));
  }
}

}  // namespace

Result<ordered_json> trace(const dataset::IndexedDataset& dataset, DataFlags data,
                           const TraceQuestion& question) {
  if (question.document.has_value() && !data.micro_batch_size.has_value() && !names_data(data)) {
    ordered_json found = json_object();
    MEG_ASSIGN_OR_RETURN(found["trace"], origin(dataset, *question.document));
    return found;
  }
  MEG_ASSIGN_OR_RETURN(Training training, open_training(dataset, std::move(data)));
  ordered_json object = json_object();
  if (question.step.has_value()) {
    MEG_ASSIGN_OR_RETURN(object["trace"], step_json(training, question));
  } else {
    MEG_ASSIGN_OR_RETURN(object["trace"], document_json(dataset, training, *question.document));
  }
  return object;
}

void print_trace(const ordered_json& answer) {
  const ordered_json& found = answer["trace"];
  if (!found.contains("samples")) {
    fmt::print("document {} of {}: {}\n", number(found, "document"),
               found["prefix"].get<std::string>(), source_text(found));
    return;
  }
  const ordered_json& samples = found["samples"];
  if (found.contains("document")) {
    fmt::print("document {} of {}: ", number(found, "document"),
               found["prefix"].get<std::string>());
    if (samples.empty()) {
      fmt::print("in no sample of the run's {} steps\n", number(found, "steps"));
      return;
    }
    fmt::print("in {} sample{} of the run's {} steps\n", samples.size(),
               samples.size() == 1 ? "" : "s", number(found, "steps"));
  } else {
    fmt::print("step {} of {}: global batch size {}, after {} consumed samples\n",
               number(found, "step"), number(found, "steps"), number(found, "global_batch_size"),
               number(found, "consumed_samples"));
  }
  print_samples(samples);
}

}  // namespace meg::tools
