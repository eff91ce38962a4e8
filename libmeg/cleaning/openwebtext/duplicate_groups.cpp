#include "libmeg/cleaning/openwebtext/duplicate_groups.h"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libmeg/cleaning/duplicates/disjoint_sets.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/preprocess/check_outputs.h"
#include "libmeg/preprocess/read_texts.h"
#include "libmeg/text/json/json_object.h"

namespace meg::cleaning {
namespace {

using Json = nlohmann::ordered_json;

/// Reads small objects, one a line.
class ObjectVisitor : public preprocess::TextVisitor {
 public:
  using Take = std::function<Status(const Json& object)>;

  explicit ObjectVisitor(Take take) : take_(std::move(take)) {}

  Status begin_document(std::string_view json, bool /*has_list*/,
                        const dataset::DocumentPlace& /*place*/) override {
    const Json object = Json::parse(json, nullptr, false);
    if (!object.is_object()) return Status(StatusCode::kCorruption, "byte 1: expected an object");
    return take_(object);
  }

  Status visit(std::string_view /*text*/) override { return {}; }

 private:
  Take take_;
};

Status read_objects(const std::string& path, ObjectVisitor::Take take,
                    const ProgressCallback& progress) {
  ObjectVisitor visitor(std::move(take));
  preprocess::TextVisitor* const visitors[] = {&visitor};
  preprocess::ReadTextsOptions reading;
  reading.inputs = {path};
  reading.input.format = preprocess::InputFormat::kJson;
  reading.json_keys = {};
  return preprocess::read_texts(reading, visitors, progress).status();
}

/// URLs that are joined to groups.
class UrlGroups {
 public:
  /// The number of a URL, counted as they appear.
  Result<uint32_t> add(const std::string& url) {
    const auto [place, is_new] = numbers_.try_emplace(url, static_cast<uint32_t>(urls_.size()));
    if (is_new) {
      urls_.push_back(&place->first);
      MEG_RETURN_IF_ERROR(sets_.grow(place->second + 1));
      labels_.push_back(kNone);
    }
    return place->second;
  }

  /// A group of them keeps the number of the first one that has a group; the numbers of the others
  /// are not used again.
  void join(std::span<const uint32_t> urls) {
    int64_t label = kNone;
    for (const uint32_t url : urls) {
      if (label == kNone) label = labels_[sets_.root(url)];
    }
    if (label == kNone) label = next_label_++;
    uint32_t all = sets_.root(urls.front());
    for (const uint32_t url : urls.subspan(1)) all = sets_.join(all, url);
    labels_[all] = label;
  }

  /// The groups of two or more, by their numbers.
  std::map<int64_t, std::vector<const std::string*>> groups() {
    std::map<int64_t, std::vector<const std::string*>> found;
    for (uint32_t url = 0; url < urls_.size(); ++url) {
      const uint32_t tree = sets_.root(url);
      if (sets_.size(tree) > 1) found[labels_[tree]].push_back(urls_[url]);
    }
    return found;
  }

 private:
  static constexpr int64_t kNone = -1;

  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<const std::string*> urls_;
  DisjointSets sets_;
  std::vector<int64_t> labels_;  // of roots
  int64_t next_label_ = 0;
};

/// Adds the URLs of a line of pairs that are similar enough, each main one before its others.
Status take_pairs(const Json& object, double least, UrlGroups& groups,
                  std::vector<uint32_t>& urls) {
  const Status unexpected(StatusCode::kCorruption,
                          "byte 1: expected {URL: [{URL: similarity}, ...]}");
  urls.clear();
  for (const auto& [main, others] : object.items()) {
    MEG_ASSIGN_OR_RETURN(urls.emplace_back(), groups.add(main));
    if (!others.is_array()) return unexpected;
    for (const Json& pairs : others) {
      if (!pairs.is_object()) return unexpected;
      for (const auto& [other, similarity] : pairs.items()) {
        if (!similarity.is_number()) return unexpected;
        if (similarity.get<double>() < least) continue;
        MEG_ASSIGN_OR_RETURN(urls.emplace_back(), groups.add(other));
      }
    }
  }
  return {};
}

}  // namespace

Result<DuplicateGroupsSummary> group_duplicates(const std::string& input, const std::string& output,
                                                double least, const ProgressCallback& progress) {
  MEG_RETURN_IF_ERROR(preprocess::check_outputs({input}, {output}));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(output));
  DuplicateGroupsSummary summary;
  UrlGroups groups;
  std::vector<uint32_t> urls;
  const auto take = [&](const Json& object) -> Status {
    ++summary.lines;
    MEG_RETURN_IF_ERROR(take_pairs(object, least, groups, urls));
    if (!urls.empty()) groups.join(urls);
    return {};
  };
  MEG_RETURN_IF_ERROR(read_objects(input, take, progress));
  std::string line;
  for (const auto& [label, members] : groups.groups()) {
    line = "{\"" + std::to_string(label) + "\": [";
    for (const std::string* const url : members) {
      if (url != members.front()) line += ", ";
      text::append_json_string(*url, line);
    }
    line += "]}\n";
    MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(line))));
    ++summary.groups;
    summary.urls += std::ssize(members);
  }
  MEG_RETURN_IF_ERROR(file.commit());
  return summary;
}

Result<std::unordered_set<std::string>> read_grouped_urls(const std::string& path) {
  std::unordered_set<std::string> found;
  MEG_RETURN_IF_ERROR(read_objects(path,
                                   [&found](const Json& object) {
                                     const Status unexpected(
                                         StatusCode::kCorruption,
                                         "byte 1: expected {NUMBER: [URL, URL, ...]}");
                                     for (const auto& [number, urls] : object.items()) {
                                       if (!urls.is_array()) return unexpected;
                                       for (size_t i = 0; i < urls.size(); ++i) {
                                         if (!urls[i].is_string()) return unexpected;
                                         if (i > 0) found.insert(urls[i].get<std::string>());
                                       }
                                     }
                                     return Status();
                                   },
                                   {}));
  return found;
}

}  // namespace meg::cleaning
