#include "libmeg/samples/internal/reblend/reblend_record.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "libmeg/io/atomic_file.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/samples/cache/internal/cache_files.h"

namespace meg::samples {
namespace {

using nlohmann::ordered_json;

/// Lists of excluded documents make it long.
constexpr size_t kMostBytes = size_t{1} << 28;

std::string path_in(const std::string& folder) {
  return (std::filesystem::path(folder) / kReblendRecord).string();
}

/// Values of a record; whether all were there is asked once.
class RecordReader {
 public:
  int64_t count(const ordered_json& object, const char* name) {
    const auto found = object.find(name);
    const bool is_count = found != object.end() && found->is_number_integer() &&
                          (!found->is_number_unsigned() || found->get<uint64_t>() <= INT64_MAX) &&
                          found->get<int64_t>() >= 0;
    return is_count ? found->get<int64_t>() : miss(name);
  }

  ReblendRecord::Dataset dataset(const ordered_json& object) {
    ReblendRecord::Dataset dataset;
    const auto prefix = object.find("prefix");
    if (prefix == object.end() || !prefix->is_string()) {
      miss("prefix");
    } else {
      dataset.prefix = prefix->get<std::string>();
    }
    const auto weight = object.find("new_weight");
    if (weight == object.end() || !weight->is_number() || !(weight->get<double>() >= 0)) {
      miss("new_weight");
    } else {
      dataset.weight = weight->get<double>();
    }
    dataset.given = count(object, "given");
    dataset.to_come = count(object, "to_come");
    dataset.excluded = documents(object);
    return dataset;
  }

  const std::string& missing() const { return missing_; }

 private:
  int64_t miss(const char* name) {
    if (missing_.empty()) missing_ = name;
    return 0;
  }

  std::vector<dataset::SequenceRange> documents(const ordered_json& object) {
    std::vector<dataset::SequenceRange> ranges;
    const auto found = object.find("excluded_documents");
    if (found == object.end()) return ranges;
    int64_t last = 0;
    for (const ordered_json& range : *found) {
      const bool is_pair = range.is_array() && range.size() == 2 && range[0].is_number_integer() &&
                           range[1].is_number_integer();
      if (!is_pair || range[0].get<int64_t>() < last ||
          range[1].get<int64_t>() < range[0].get<int64_t>()) {
        miss("excluded_documents");
        return {};
      }
      last = range[1].get<int64_t>();
      ranges.push_back({range[0].get<int64_t>(), last});
    }
    return ranges;
  }

  std::string missing_;
};

}  // namespace

Status write_reblend_record(const ReblendRecord& record, const std::string& folder) {
  ordered_json object = {{"consumed_samples", record.consumed},
                         {"samples", record.samples},
                         {"weights_from", record.weights_from},
                         {"datasets", ordered_json::array()}};
  for (const ReblendRecord::Dataset& each : record.datasets) {
    ordered_json entry = {{"prefix", each.prefix},
                          {"new_weight", each.weight},
                          {"given", each.given},
                          {"to_come", each.to_come}};
    for (const auto& [begin, end] : each.excluded) {
      entry["excluded_documents"].push_back({begin, end});
    }
    object["datasets"].push_back(std::move(entry));
  }
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create_under_lock(path_in(folder)));
  const std::string text =
      object.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

Result<std::optional<ReblendRecord>> read_reblend_record(const std::string& folder) {
  const auto file = io::MappedFile::open(path_in(folder));
  if (!file.has_value() && file.error().code() == StatusCode::kNotFound) {
    return std::optional<ReblendRecord>();
  }
  MEG_RETURN_IF_ERROR(file.status());
  const auto refuse = [&](std::string_view found) {
    return make_error(StatusCode::kCorruption, "{}: expected what reblend writes, found {}",
                      file->path(), found);
  };
  if (file->size() > kMostBytes) return refuse("a longer file");
  const auto object = ordered_json::parse(file->text(), nullptr, /*allow_exceptions=*/false);
  const auto datasets = object.is_object() ? object.find("datasets") : object.end();
  if (!object.is_object() || datasets == object.end() || !datasets->is_array()) {
    return refuse("no datasets");
  }
  RecordReader reader;
  ReblendRecord record{.consumed = reader.count(object, "consumed_samples"),
                       .samples = reader.count(object, "samples"),
                       .weights_from = reader.count(object, "weights_from"),
                       .datasets = {}};
  for (const ordered_json& each : *datasets) record.datasets.push_back(reader.dataset(each));
  if (!reader.missing().empty()) return refuse("no usable " + reader.missing());
  return std::optional(std::move(record));
}

std::vector<dataset::SequenceRange> united(std::vector<dataset::SequenceRange> ranges,
                                           const std::vector<dataset::SequenceRange>& others) {
  ranges.insert(ranges.end(), others.begin(), others.end());
  std::ranges::sort(ranges, {}, &dataset::SequenceRange::begin);
  std::vector<dataset::SequenceRange> apart;
  for (const dataset::SequenceRange& range : ranges) {
    if (!apart.empty() && range.begin <= apart.back().end) {
      apart.back().end = std::max(apart.back().end, range.end);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

}  // namespace meg::samples
