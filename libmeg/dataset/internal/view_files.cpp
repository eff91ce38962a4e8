#include "libmeg/dataset/internal/view_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "libmeg/dataset/internal/companion_files.h"
#include "libmeg/dataset/internal/libmeg_file.h"
#include "libmeg/io/digest.h"
#include "libmeg/text/printable.h"

namespace meg::dataset {
namespace {

namespace fs = std::filesystem;

// Blocks of a .bin by which it is known again, spread over all of it. Few enough that opening a
// view costs no more than a handful of reads; a .bin that was written again differs in nearly all.
constexpr int64_t kBlocks = 16;
constexpr int64_t kBlockBytes = 4096;
/// Of names in messages, which come from a file.
constexpr size_t kNameBytes = 1000;

std::string digest_of_blocks(std::span<const std::byte> bin) {
  const auto size = static_cast<int64_t>(bin.size());
  io::Digest digest;
  for (int64_t i = 0; i < kBlocks; ++i) {
    const int64_t last = std::max<int64_t>(size - kBlockBytes, 0);
    const int64_t begin = last / (kBlocks - 1) * i + last % (kBlocks - 1) * i / (kBlocks - 1);
    digest.add(bin.subspan(static_cast<size_t>(begin),
                           static_cast<size_t>(std::min(kBlockBytes, size - begin))));
  }
  return digest.hex();
}

/// What PREFIX.libmeg says of a link PREFIX.bin.
Result<std::optional<ViewOf>> view_at(const std::string& prefix) {
  std::error_code absent;
  if (!fs::is_symlink(prefix + ".bin", absent)) return std::optional<ViewOf>();
  return read_view_of(prefix);
}

/// A path without links in its folder, the same for all names of one file.
fs::path full_name(const std::string& path) {
  std::error_code ignored;
  const fs::path absolute = fs::absolute(path, ignored);
  return fs::weakly_canonical(absolute.parent_path(), ignored) / absolute.filename();
}

Status check_place_of_link(const std::string& prefix) {
  const std::string bin = prefix + ".bin";
  std::error_code absent;
  if (!fs::exists(fs::symlink_status(bin, absent)) || fs::is_symlink(bin, absent)) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected no file, or the link of a view, found data, to which other "
                    "views may point",
                    bin);
}

/// Puts a link in place of an older one.
Status link_bin(const std::string& prefix, const std::string& target) {
  const std::string bin = prefix + ".bin";
  const std::string partial = bin + ".partial";  // of a killed holder of the lock, if it is there
  ::unlink(partial.c_str());
  if (::symlink(target.c_str(), partial.c_str()) != 0) return errno_error(errno, bin);
  if (::rename(partial.c_str(), bin.c_str()) == 0) return {};
  const Status status = errno_error(errno, bin);
  ::unlink(partial.c_str());
  return status;
}

}  // namespace

Result<ViewOf> describe_view(const std::string& path, const std::string& prefix) {
  std::error_code error;
  const fs::path folder = full_name(prefix).parent_path();
  const fs::path target = fs::canonical(path, error);
  if (error) return errno_error(error.value(), path);
  MEG_ASSIGN_OR_RETURN(const BinFile bin, BinFile::open(path, io::MappedFile::Access::kRandom));
  return ViewOf{target.lexically_relative(folder).string(), bin.size(),
                digest_of_blocks(bin.mapped())};
}

Status check_output(const std::string& source, const std::string& output, OutputBin bin) {
  if (fs::path(output).filename().empty()) {
    return make_error(StatusCode::kInvalidArgument,
                      "\"{}\": expected a name for the new dataset, found none", output);
  }
  const auto is_source = [&](const char* ending) {
    std::error_code absent;
    return fs::equivalent(source + ending, output + ending, absent);
  };
  const Status replaces =
      make_error(StatusCode::kInvalidArgument,
                 "{}: expected another dataset than the source {} as output", output, source);
  if (full_name(source) == full_name(output) || is_source(".idx")) return replaces;
  if (bin == OutputBin::kLink) return check_place_of_link(output);
  MEG_RETURN_IF_ERROR(check_is_no_view(output));
  return is_source(".bin") ? replaces : Status();
}

Status publish_view(const std::string& prefix, io::AtomicFile& idx, const ViewOf& view,
                    std::optional<DatasetTokenizer> tokenizer) {
  MEG_ASSIGN_OR_RETURN(
      auto libmeg, create_libmeg_file(prefix, {.tokenizer = std::move(tokenizer), .view = view}));
  // An older index goes first: it must neither stand beside the new link nor, where it is that of
  // a view, without the PREFIX.libmeg that says so.
  std::error_code failed;
  fs::remove(prefix + ".idx", failed);
  if (failed) return errno_error(failed.value(), prefix + ".idx");
  MEG_RETURN_IF_ERROR(remove_companion_files(prefix));
  MEG_RETURN_IF_ERROR(link_bin(prefix, view.bin));
  std::vector<io::AtomicFile*> files = {&*libmeg, &idx};
  return io::AtomicFile::commit_all(files);
}

Status check_is_no_view(const std::string& prefix) {
  MEG_ASSIGN_OR_RETURN(const auto view, view_at(prefix));
  if (!view) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "{}.bin: expected a file of the dataset's own as output, found the link of a "
                    "view to {}: remove the view first",
                    prefix, text::printable_name(view->bin, kNameBytes));
}

std::optional<ViewChange> change_of(const ViewOf& view, const BinFile& bin) {
  const std::string name = text::printable_name(view.bin, kNameBytes);
  if (view.bytes != bin.size()) {
    return ViewChange{fmt::format("the {} bytes that {} had when it was made", view.bytes, name),
                      fmt::format("{}", bin.size())};
  }
  if (view.blocks.empty()) return std::nullopt;
  const std::string found = digest_of_blocks(bin.mapped());
  if (found == view.blocks) return std::nullopt;
  return ViewChange{fmt::format("the content that {} had when it was made", name), "another"};
}

Status check_view(const std::string& prefix, const BinFile& bin) {
  MEG_ASSIGN_OR_RETURN(const auto view, view_at(prefix));
  const auto change = view ? change_of(*view, bin) : std::nullopt;
  if (!change) return {};
  return make_error(StatusCode::kCorruption, "{}.bin: a view: expected {}, found {}", prefix,
                    change->expected, change->found);
}

Result<BinFile> open_bin(const std::string& prefix, io::MappedFile::Access access) {
  Result<BinFile> bin = BinFile::open(prefix + ".bin", access);
  if (bin.has_value() || bin.error().code() != StatusCode::kNotFound) return bin;
  const Result<std::optional<ViewOf>> view = view_at(prefix);
  if (!view.has_value() || !*view) return bin;
  return make_error(StatusCode::kNotFound, "{}.bin: a view: expected {}, found no such file",
                    prefix, text::printable_name((*view)->bin, kNameBytes));
}

}  // namespace meg::dataset
