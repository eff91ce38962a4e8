// verify manifest: digests of a checkpoint's tensors that hold in every layout.

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "libmeg/base/thread_pool.h"
#include "libmeg/checkpoint/verify/checkpoint_manifest.h"
#include "tools/common/byte_size.h"
#include "tools/common/flag_groups/checkpoint_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/verify/problems.h"
#include "tools/verify/verify_programs.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  std::string path;
  std::optional<int64_t> iteration;
  std::optional<std::string> manifest;
  bool write = false;
  bool json = false;
  checkpoint::OpenCheckpointOptions open;
  checkpoint::ManifestOptions options;
};

Result<std::string> manifest_path(const Arguments& arguments,
                                  const checkpoint::CheckpointFolder& folder) {
  if (arguments.manifest.has_value()) return *arguments.manifest;
  if (folder.format == checkpoint::CheckpointFormat::kSingleFile) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: a single file has no folder for a manifest: expected --manifest FILE",
                      folder.folder);
  }
  return (std::filesystem::path(folder.folder) / checkpoint::kManifestName).string();
}

ordered_json report_json(const std::string& path, const checkpoint::MegatronCheckpoint& checkpoint,
                         const checkpoint::ManifestReport& report) {
  ordered_json object = json_object();
  object["folder"] = checkpoint.folder().folder;
  object["manifest"] = path;
  object["ok"] = report.ok();
  object["tensors"] = report.tensors;
  object["notes"] = notes_json(report.notes);
  object["problems"] = problems_json(report.problems);
  return object;
}

int write(const std::string& path, const checkpoint::MegatronCheckpoint& checkpoint,
          const Arguments& arguments, ProgressBar* bar) {
  note_new_folders(path);
  const Result<checkpoint::Manifest> manifest =
      checkpoint::make_manifest(checkpoint, arguments.options);
  bar->clear();
  if (!manifest.has_value()) return fail(manifest.error());
  if (const Status status = checkpoint::write_manifest(path, *manifest); !status.ok())
    return fail(status);
  if (arguments.json) {
    ordered_json object = json_object();
    object["folder"] = checkpoint.folder().folder;
    object["manifest"] = path;
    object["tensors"] = manifest->tensors.size();
    print_json(object);
  } else {
    fmt::print("{}: {} tensors\n{}\n", path, manifest->tensors.size(),
               written_text(path, {&path, 1}));
  }
  return 0;
}

int check(const std::string& path, const checkpoint::MegatronCheckpoint& checkpoint,
          const Arguments& arguments, ProgressBar* bar) {
  const Result<checkpoint::Manifest> manifest = checkpoint::read_manifest(path);
  // The usual first call: the message says what makes the file.
  if (manifest.status().code() == StatusCode::kNotFound) {
    return fail(make_error(StatusCode::kNotFound,
                           "{}: no such file: create it with verify manifest --write", path));
  }
  if (!manifest.has_value()) return fail(manifest.error());
  const Result<checkpoint::ManifestReport> report =
      checkpoint::check_manifest(checkpoint, *manifest, arguments.options);
  bar->clear();
  if (!report.has_value()) return fail(report.error());
  if (arguments.json) {
    print_json(report_json(path, checkpoint, *report));
  } else {
    for (const std::string& text : report->notes) note(text);
    print_problems(report->problems);
    if (report->ok()) {
      fmt::print("{}: ok ({} tensors as in {})\n", checkpoint.folder().folder, report->tensors,
                 path);
    }
  }
  if (report->ok()) return 0;
  return fail(make_error(StatusCode::kCorruption, "{}: {} {} not as in {}",
                         checkpoint.folder().folder, report->problems.size(),
                         report->problems.size() == 1 ? "tensor" : "tensors", path));
}

int run(const Arguments& arguments, ProgressBar* bar) {
  const Result<checkpoint::CheckpointFolder> folder =
      checkpoint::find_checkpoint(arguments.path, arguments.iteration);
  if (!folder.has_value()) return fail(no_checkpoint(arguments.path, folder.error()));
  const Result<std::string> path = manifest_path(arguments, *folder);
  if (!path.has_value()) return fail(path.error());
  const Result<checkpoint::MegatronCheckpoint> checkpoint =
      checkpoint::MegatronCheckpoint::open(*folder, arguments.open);
  if (!checkpoint.has_value()) return fail(checkpoint.error());
  return arguments.write ? write(*path, *checkpoint, arguments, bar)
                         : check(*path, *checkpoint, arguments, bar);
}

}  // namespace

int verify_manifest_main(int argc, const char* const* argv) {
  Arguments arguments;
  CheckpointFlags checkpoint_flags;
  int64_t workers = available_processors();
  bool no_crc = false;
  bool no_optim = false;
  Flags flags("verify manifest",
              "compares a checkpoint's tensors with the digests that --write stored beside it "
              "(libmeg-manifest.json); digests stay valid after any change of layout.");
  flags.examples({"verify manifest checkpoints --write",
                  "verify manifest checkpoints_tp2_pp4 --manifest "
                  "checkpoints/iter_0005000/libmeg-manifest.json"});
  flags.positional("DIR", &arguments.path,
                   "the folder with the tracker file, an iter_* folder, or a Hugging Face folder");
  flags.group("Manifest");
  flags.toggle("--write", &arguments.write, "write the digests instead of checking them");
  flags.value("--manifest", &arguments.manifest, "FILE",
              "path of the manifest, such as that of the checkpoint that this one was made from");
  flags
      .value("--iteration", &arguments.iteration, "N",
             "check iter_N instead of the one that the tracker names")
      .range(0, int64_t{1} << 62);
  flags.group("Comparison");
  flags
      .value("--vocab-size", &arguments.options.vocab_size, "N",
             "vocabulary size without padding: later rows are excluded")
      .range(1, int64_t{1} << 32);
  flags.toggle("--no-optim", &no_optim, "exclude the optimizer");
  flags.toggle("--no-crc", &no_crc, "do not check the files' CRC-32s");
  checkpoint_flags.declare(flags);
  flags.group("Running");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  flags.value("--workers", &workers, "N", "threads that read tensors").range(1, kMaxWorkers);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;

  Result<checkpoint::OpenCheckpointOptions> open_options = checkpoint_flags.options();
  if (!open_options.has_value()) return fail(open_options.error());
  arguments.open = *std::move(open_options);
  arguments.open.ignore_optimizer = no_optim;
  arguments.open.check_crcs = !no_crc;
  arguments.options.include_optimizer = !no_optim;
  ProgressBar bar(0);
  arguments.options.digest = {
      .check_crcs = !no_crc, .workers = static_cast<int>(workers), .progress = bar.callback()};
  return run(arguments, &bar);
}

}  // namespace meg::tools
