#include "libmeg/cleaning/openwebtext/duplicate_pairs.h"

#include <xxhash.h>

#include <algorithm>
#include <compare>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/cleaning/duplicates/shingle_sets.h"
#include "libmeg/cleaning/internal/minhash_stages.h"
#include "libmeg/cleaning/openwebtext/character_min_hash.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/preprocess/check_outputs.h"
#include "libmeg/preprocess/read_texts.h"
#include "libmeg/text/json/json_object.h"
#include "libmeg/text/json/python_float.h"

namespace meg::cleaning {
namespace {

/// A document in a bucket of one band.
struct Entry {
  uint64_t bucket;
  uint32_t url;

  auto operator<=>(const Entry&) const = default;
};

/// What is known of all documents.
struct Corpus {
  explicit Corpus(ShingleWriter writer) : shingle_writer(std::move(writer)) {}

  std::unordered_map<std::string, uint32_t> numbers;  // of URLs, as they appear
  std::vector<const std::string*> urls;
  std::vector<uint32_t> texts;  // the last one of each URL
  uint32_t text_count = 0;
  std::vector<std::vector<Entry>> bands;
  ShingleWriter shingle_writer;
  ShingleSets shingles;
};

/// The text of an integer or a string, as Python's json has it as a key; an error else.
Result<std::string> url_of(std::string_view json, const std::string& key) {
  const std::string_view value = text::find_json_value(json, key);
  if (value.starts_with('"')) {
    std::string buffer;
    return std::string(text::json_string_text(value, buffer));
  }
  const bool is_integer = !value.empty() && value.find_first_not_of("-0123456789") == value.npos;
  if (is_integer) return std::string(value == "-0" ? "0" : value);
  return make_error(StatusCode::kCorruption, "byte 1: expected a string or an integer at \"{}\"",
                    key);
}

/// Signs the documents of parts, which are added to the corpus in order.
class Signer : public preprocess::TextVisitor {
 public:
  Signer(const DuplicatePairsOptions& options, const std::string& key, Corpus& corpus,
         DuplicatePairsSummary& summary)
      : key_(key),
        corpus_(corpus),
        summary_(summary),
        hasher_(options.seed, static_cast<size_t>(options.hashes)),
        band_width_(static_cast<size_t>(options.hashes / options.bands)) {}

  void begin_part(int64_t /*number*/) override {
    urls_.clear();
    buckets_.clear();
    shingles_.clear();
    sizes_.clear();
  }

  Status begin_document(std::string_view json, bool has_list,
                        const dataset::DocumentPlace& /*place*/) override {
    if (has_list) {
      return Status(StatusCode::kCorruption, "byte 1: expected a string, found a list of strings");
    }
    MEG_ASSIGN_OR_RETURN(std::string url, url_of(json, key_));
    urls_.push_back(std::move(url));
    return {};
  }

  Status visit(std::string_view text) override {
    const std::span<const int32_t> signature = hasher_.sign(text);
    for (size_t at = 0; at < signature.size(); at += band_width_) {
      const auto band = signature.subspan(at, band_width_);
      buckets_.push_back(XXH3_64bits(band.data(), band.size_bytes()));
    }
    const std::span<const uint64_t> shingles = hasher_.distinct_shingles(text);
    shingles_.insert(shingles_.end(), shingles.begin(), shingles.end());
    sizes_.push_back(shingles.size());
    return {};
  }

  Status write(const preprocess::ReadPosition& /*end*/) override {
    const std::span<const uint64_t> all = shingles_;
    size_t shingle = 0, bucket = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (corpus_.text_count == std::numeric_limits<uint32_t>::max()) {
        return Status(StatusCode::kResourceExhausted, "expected at most 4294967295 documents");
      }
      const auto next = static_cast<uint32_t>(corpus_.urls.size());
      const auto [place, is_new] = corpus_.numbers.try_emplace(std::move(urls_[i]), next);
      if (is_new) {
        corpus_.urls.push_back(&place->first);
        corpus_.texts.push_back(0);
      } else {
        ++summary_.repeated_urls;
      }
      MEG_RETURN_IF_ERROR(corpus_.shingle_writer.add(all.subspan(shingle, sizes_[i])));
      shingle += sizes_[i];
      MEG_RETURN_IF_ERROR(corpus_.shingles.add(corpus_.text_count, sizes_[i]));
      corpus_.texts[place->second] = corpus_.text_count++;
      for (std::vector<Entry>& band : corpus_.bands) {
        band.push_back({.bucket = buckets_[bucket++], .url = place->second});
      }
    }
    return {};
  }

 private:
  const std::string& key_;
  Corpus& corpus_;
  DuplicatePairsSummary& summary_;
  CharacterMinHasher hasher_;
  size_t band_width_;
  // Of the part's documents; a bucket for each band, and the shingles, one document after another.
  std::vector<std::string> urls_;
  std::vector<uint64_t> buckets_, shingles_;
  std::vector<size_t> sizes_;
};

Status read_input(const DuplicatePairsOptions& options, const DuplicatePairsOptions::Input& input,
                  Corpus& corpus, DuplicatePairsSummary& summary,
                  const ProgressCallback& progress) {
  std::vector<std::unique_ptr<Signer>> signers;
  std::vector<preprocess::TextVisitor*> visitors;
  for (int i = 0; i < options.workers; ++i) {
    signers.push_back(std::make_unique<Signer>(options, input.key, corpus, summary));
    visitors.push_back(signers.back().get());
  }
  preprocess::ReadTextsOptions reading;
  reading.inputs = {input.path};
  reading.input.format = preprocess::InputFormat::kJson;
  reading.on_error = options.on_error;
  reading.in_order = true;
  MEG_ASSIGN_OR_RETURN(const preprocess::ReadTextsSummary read,
                       preprocess::read_texts(reading, visitors, progress));
  summary.documents += read.documents;
  summary.input_bytes += read.input_bytes;
  summary.skipped_lines += read.skipped_lines;
  summary.skipped_examples.insert(summary.skipped_examples.end(), read.skipped_examples.begin(),
                                  read.skipped_examples.end());
  return {};
}

/// What one band has.
struct BandPairs {
  std::string lines;
  int64_t compared = 0, similar = 0;
};

/// Compares the documents of a band's buckets.
class BandSearch {
 public:
  BandSearch(const DuplicatePairsOptions& options, const Corpus& corpus, const Tick& tick)
      : options_(options), corpus_(corpus), tick_(tick) {}

  Status run(std::vector<Entry>& band) {
    std::sort(band.begin(), band.end());
    band.erase(std::unique(band.begin(), band.end()), band.end());
    std::vector<std::span<const Entry>> buckets;  // of two or more
    for (size_t begin = 0; begin < band.size();) {
      size_t end = begin + 1;
      while (end < band.size() && band[end].bucket == band[begin].bucket) ++end;
      if (end - begin > 1) buckets.emplace_back(band.data() + begin, end - begin);
      begin = end;
    }
    std::sort(buckets.begin(), buckets.end(),
              [](const auto& a, const auto& b) { return a.front().url < b.front().url; });
    for (const std::span<const Entry> bucket : buckets) {
      urls_.clear();
      for (const Entry& entry : bucket) urls_.push_back(entry.url);
      MEG_RETURN_IF_ERROR(compare());
    }
    return {};
  }

  BandPairs& found() { return found_; }

 private:
  /// The documents of urls_, a bucket.
  Status compare() {
    for (int64_t i = 0; urls_.size() > 1 && i != options_.heuristic_iterations; ++i) {
      const uint32_t first = urls_.front();
      size_t remaining = 0;
      bool is_alone = true;
      for (size_t other = 1; other < urls_.size(); ++other) {
        constexpr int64_t kTickInterval = 1024;
        if (found_.compared % kTickInterval == 0) MEG_RETURN_IF_ERROR(tick_(found_.compared));
        MEG_ASSIGN_OR_RETURN(const double similarity, similarity_of(first, urls_[other]));
        constexpr double kLeast = 0.5;
        if (similarity > kLeast) {
          add_pair(first, is_alone, urls_[other], similarity);
          is_alone = false;
        } else {
          urls_[remaining++] = urls_[other];
        }
      }
      if (!is_alone) found_.lines += "]}\n";
      urls_.resize(remaining);
    }
    return {};
  }

  Result<double> similarity_of(uint32_t a, uint32_t b) {
    ++found_.compared;
    const uint32_t text_a = corpus_.texts[a], text_b = corpus_.texts[b];
    const uint64_t size_a = corpus_.shingles.size(text_a), size_b = corpus_.shingles.size(text_b);
    if (size_a == 0 || size_b == 0) return 0.0;
    MEG_ASSIGN_OR_RETURN(const uint64_t common, corpus_.shingles.common(text_a, text_b));
    const uint64_t of = options_.similarity == SimilarityOf::kUnion     ? size_a + size_b - common
                        : options_.similarity == SimilarityOf::kSmaller ? std::min(size_a, size_b)
                                                                        : std::max(size_a, size_b);
    return static_cast<double>(common) / static_cast<double>(of);
  }

  void add_pair(uint32_t first, bool is_first_pair, uint32_t other, double similarity) {
    ++found_.similar;
    if (is_first_pair) {
      found_.lines += '{';
      text::append_json_string(*corpus_.urls[first], found_.lines);
      found_.lines += ": [";
    }
    found_.lines += is_first_pair ? "{" : ", {";
    text::append_json_string(*corpus_.urls[other], found_.lines);
    found_.lines += ": " + text::python_float_text(similarity) + '}';
  }

  const DuplicatePairsOptions& options_;
  const Corpus& corpus_;
  const Tick& tick_;
  std::vector<uint32_t> urls_;
  BandPairs found_;
};

Status check_options(const DuplicatePairsOptions& options) {
  if (options.bands < 1 || options.hashes < 1 || options.hashes % options.bands != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "`num_seeds`: expected a multiple of `num_bands`, {}, found {}",
                      options.bands, options.hashes);
  }
  std::vector<std::string> paths;
  for (const DuplicatePairsOptions::Input& input : options.inputs) paths.push_back(input.path);
  return preprocess::check_outputs(paths, {options.output});
}

}  // namespace

Result<DuplicatePairsSummary> find_duplicate_pairs(const DuplicatePairsOptions& options,
                                                   const ProgressCallback& progress) {
  MEG_RETURN_IF_ERROR(check_options(options));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile output, io::AtomicFile::create(options.output));
  MEG_ASSIGN_OR_RETURN(ShingleWriter writer, ShingleWriter::create(options.output + ".shingles"));
  Corpus corpus(std::move(writer));
  corpus.bands.resize(static_cast<size_t>(options.bands));
  corpus.shingles.add_file([&corpus](int64_t offset, std::span<std::byte> into) {
    return corpus.shingle_writer.read_at(offset, into);
  });
  DuplicatePairsSummary summary;
  for (const DuplicatePairsOptions::Input& input : options.inputs) {
    MEG_RETURN_IF_ERROR(read_input(options, input, corpus, summary, progress));
  }
  MEG_RETURN_IF_ERROR(corpus.shingle_writer.finish().status());
  const Tick tick = make_tick(progress);
  std::vector<Status> statuses(corpus.bands.size());
  std::vector<BandPairs> found(corpus.bands.size());
  {
    ThreadPool pool(std::min(options.workers, static_cast<int>(options.bands)));
    for (size_t i = 0; i < found.size(); ++i) {
      pool.submit([&, i] {
        BandSearch search(options, corpus, tick);
        statuses[i] = search.run(corpus.bands[i]);
        found[i] = std::move(search.found());
      });
    }
    pool.wait();
  }
  for (size_t i = 0; i < found.size(); ++i) {
    MEG_RETURN_IF_ERROR(statuses[i]);
    MEG_RETURN_IF_ERROR(output.write(std::as_bytes(std::span(found[i].lines))));
    summary.compared += found[i].compared;
    summary.similar += found[i].similar;
  }
  MEG_RETURN_IF_ERROR(output.commit());
  return summary;
}

}  // namespace meg::cleaning
