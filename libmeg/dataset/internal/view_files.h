#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/dataset/bin_file.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/dataset_view.h"
#include "libmeg/io/atomic_file.h"

namespace meg::dataset {

/// What a view at `prefix` says of the .bin at `path`, whose link is relative to the view's folder.
Result<ViewOf> describe_view(const std::string& path, const std::string& prefix);

/// What PREFIX.bin of a new dataset is to be.
enum class OutputBin {
  kOwn,   ///< A file with tokens.
  kLink,  ///< The link of a view.
};

/// kInvalidArgument where a new dataset has no name, or writing it would replace what is read for
/// it, or other data: where `output` is `source`, whatever it is called, or leads to its tokens,
/// and as check_is_no_view() or, for the link of a view, where PREFIX.bin is there and no link,
/// which could be the data of other views. Both are prefixes without ".bin" or ".idx".
Status check_output(const std::string& source, const std::string& output, OutputBin bin);

/// Publishes a view, possibly in place of another one: `idx`, which is complete, with the link and
/// PREFIX.libmeg. A killed process leaves the older view, the new one or none. The caller holds the
/// dataset's lock.
Status publish_view(const std::string& prefix, io::AtomicFile& idx, const ViewOf& view,
                    std::optional<DatasetTokenizer> tokenizer);

/// kInvalidArgument where PREFIX.bin is the link of a view: files are written through links, so a
/// new dataset of that name would replace the tokens that the view points into.
Status check_is_no_view(const std::string& prefix);

/// How the .bin of a view differs from what it was when the view was made.
struct ViewChange {
  std::string expected, found;
};

/// nullopt where it does not: where its size is the same and so are some blocks of it.
std::optional<ViewChange> change_of(const ViewOf& view, const BinFile& bin);

/// kCorruption where PREFIX.bin is the link of a view whose file has changed since: the pointers of
/// PREFIX.idx are those of another file. bin: of this machine.
Status check_view(const std::string& prefix, const BinFile& bin);

/// PREFIX.bin, opened. kNotFound says which file the link of a view names.
Result<BinFile> open_bin(const std::string& prefix, io::MappedFile::Access access);

}  // namespace meg::dataset
