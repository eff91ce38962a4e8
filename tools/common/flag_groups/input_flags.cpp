#include "tools/common/flag_groups/input_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>

namespace meg::tools {
namespace {

/// Text with the escapes of \n, \r, \t and \\ resolved.
Result<std::string> unescaped(std::string_view flag, std::string_view text) {
  constexpr std::string_view kCodes = "nrt\\", kBytes = "\n\r\t\\";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    const size_t code = ++i < text.size() ? kCodes.find(text[i]) : kCodes.npos;
    if (code == kCodes.npos) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected n, r, t or a backslash after a backslash, found {}", flag,
                        text);
    }
    result += kBytes[code];
  }
  return result;
}

Result<preprocess::Shard> parse_shard(const std::string& text) {
  preprocess::Shard shard;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  const bool has_slash = index.ec == std::errc() && index.ptr != end && *index.ptr == '/';
  const auto count = std::from_chars(has_slash ? index.ptr + 1 : end, end, shard.count);
  const bool is_right = has_slash && count.ec == std::errc() && count.ptr == end &&
                        shard.index >= 0 && shard.index < shard.count;
  if (is_right) return shard;
  return make_error(StatusCode::kInvalidArgument,
                    "--shard: expected I/N with 0 <= I < N, or auto, found {}", text);
}

/// What the launcher of many processes says.
Result<preprocess::Shard> shard_of_environment() {
  struct Launcher {
    const char* rank;
    const char* size;
  };

  constexpr Launcher kLaunchers[] = {{"RANK", "WORLD_SIZE"},
                                     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                     {"SLURM_PROCID", "SLURM_NTASKS"}};
  for (const Launcher& launcher : kLaunchers) {
    const char* const rank = std::getenv(launcher.rank);
    const char* const size = std::getenv(launcher.size);
    if (rank == nullptr && size == nullptr) continue;
    if (rank != nullptr && size != nullptr) return parse_shard(fmt::format("{}/{}", rank, size));
    return make_error(StatusCode::kInvalidArgument,
                      "--shard auto: expected {} and {}, found only {}", launcher.rank,
                      launcher.size, rank != nullptr ? launcher.rank : launcher.size);
  }
  return make_error(
      StatusCode::kInvalidArgument,
      "--shard auto: expected the environment of torchrun, mpirun or srun, found none");
}

}  // namespace

Flag declare_input_flags(Flags& flags, InputFlags& input, const std::string& max_documents) {
  flags.group("Input");
  const Flag inputs =
      flags.list("--input", &input.inputs, "FILE...",
                 "files, folders and patterns in this order, on disk or at s3://, also "
                 "compressed (gzip, zstd, xz); - is standard input");
  flags
      .value("--input-format", &input.format, "FORMAT",
             "format of the inputs; auto: recognize Parquet and Arrow by content, csv and txt by "
             "name, and read others as JSON lines or one JSON array")
      .choices({"auto", "json", "csv", "txt"});
  flags.list("--csv-column", &input.csv_columns, "NAME|INDEX...",
             "CSV column for each JSON key, by name or by index from 0 (default: columns named "
             "like the keys)");
  flags.toggle("--csv-header", &input.csv_header,
               "skip the first row of a CSV file even if columns are given by index");
  flags
      .value("--txt-document", &input.txt_document, "WHAT",
             "unit of plain text that is one document")
      .choices({"file", "line"});
  flags.value("--txt-separator", &input.txt_separator, "TEXT",
              "separator of the documents in plain text; \\n, \\r, \\t and \\\\ as in C");
  flags.value("--max-documents", &input.max_documents, "N", max_documents)
      .range(1, std::numeric_limits<int64_t>::max());
  flags
      .value("--max-compression-ratio", &input.max_compression_ratio, "N",
             "refuse an input that decompresses to more than N times its size")
      .range(1, int64_t{1} << 32);
  flags.value("--shard", &input.shard, "I/N|auto",
              "read only share I of N, from 0; auto: take I and N from torchrun, srun or mpirun");
  return inputs;
}

Status finish_input_options(const InputFlags& flags, preprocess::InputOptions& options) {
  using preprocess::InputFormat, preprocess::TxtDocument;
  const std::map<std::string, InputFormat> formats = {{"auto", InputFormat::kAuto},
                                                      {"json", InputFormat::kJson},
                                                      {"csv", InputFormat::kCsv},
                                                      {"txt", InputFormat::kTxt}};
  options.format = formats.at(flags.format);
  options.csv_columns = flags.csv_columns;
  options.csv_has_header = flags.csv_header;
  options.max_compression_ratio = flags.max_compression_ratio;
  if (flags.shard) {
    MEG_ASSIGN_OR_RETURN(
        options.shard, *flags.shard == "auto" ? shard_of_environment() : parse_shard(*flags.shard));
  }
  if (flags.txt_document == "line") options.txt_document = TxtDocument::kLine;
  if (!flags.txt_separator) return Status();
  if (flags.txt_document != "file") {
    return Status(StatusCode::kInvalidArgument,
                  "--txt-separator: cannot be combined with --txt-document line");
  }
  options.txt_document = TxtDocument::kSeparated;
  MEG_ASSIGN_OR_RETURN(options.txt_separator, unescaped("--txt-separator", *flags.txt_separator));
  return Status();
}

void SentenceFlags::take_fields(megatron::FieldReader& args) {
  args.take("split_sentences", split_sentences);
  args.take("keep_newlines", keep_newlines);
  args.take("lang", language);
}

void declare_punkt_model(Flags& flags, SentenceFlags& sentences) {
  flags.value("--punkt-model", &sentences.punkt_model, "FOLDER",
              "folder with a Punkt model for --split-sentences, in nltk's format punkt_tab "
              "(default: that of --lang in NLTK_DATA or nltk_data)");
}

Result<std::optional<preprocess::SentenceOptions>> sentence_options(
    const SentenceFlags& flags, const megatron::MegatronVersion& version) {
  std::optional<preprocess::SentenceOptions> sentences;
  if (!flags.split_sentences) {
    if (!flags.keep_newlines && !flags.punkt_model) return sentences;
    return make_error(StatusCode::kInvalidArgument, "{}: requires --split-sentences",
                      flags.keep_newlines ? "--keep-newlines" : "--punkt-model");
  }
  sentences = {.punkt_folder = flags.punkt_model.value_or(""),
               .keep_newlines = flags.keep_newlines};
  if (!flags.punkt_model) {
    MEG_ASSIGN_OR_RETURN(sentences->punkt_folder, preprocess::find_punkt_folder(flags.language));
  }
  // v2.6 splits a text as a whole; later revisions cut it into pieces of a million characters
  // first.
  if (version.sentences_of_whole_texts) {
    sentences->max_characters = std::numeric_limits<int64_t>::max();
  }
  return sentences;
}

}  // namespace meg::tools
