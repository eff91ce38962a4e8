#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_archive_writer.h"
#include "libmeg/io/pooled_file.h"

namespace meg::checkpoint {

struct TorchFileWriter::State {
  io::PooledFile file;
  TorchArchiveWriter archive;
};

TorchFileWriter::TorchFileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

TorchFileWriter::TorchFileWriter(TorchFileWriter&&) noexcept = default;
TorchFileWriter& TorchFileWriter::operator=(TorchFileWriter&&) noexcept = default;
TorchFileWriter::~TorchFileWriter() = default;

Result<TorchFileWriter> TorchFileWriter::create(const std::string& path,
                                                const TorchFileContent& content,
                                                TorchFileLayout layout) {
  auto state = std::make_unique<State>();
  MEG_ASSIGN_OR_RETURN(state->file, io::PooledFile::create(path));
  {
    MEG_ASSIGN_OR_RETURN(const auto open, state->file.pin());
    // The file gets its size first, all of it a hole: holes of sparse sources need no writing, and
    // no write has to extend the file.
    if (::ftruncate(open->get(), static_cast<off_t>(layout.file_size)) != 0) {
      return errno_error(errno, path);
    }
  }
  MEG_ASSIGN_OR_RETURN(state->archive,
                       TorchArchiveWriter::create(state->file, 0, content, std::move(layout)));
  return TorchFileWriter(std::move(state));
}

const TorchFileLayout& TorchFileWriter::layout() const { return state_->archive.layout(); }

const io::PooledFile& TorchFileWriter::file() const { return state_->file; }

Status TorchFileWriter::write(int storage, uint64_t offset,
                              std::span<const std::byte> bytes) const {
  return state_->archive.write(storage, offset, bytes);
}

void TorchFileWriter::set_crc(int storage, uint32_t crc) { state_->archive.set_crc(storage, crc); }

Status TorchFileWriter::finish() {
  MEG_RETURN_IF_ERROR(state_->archive.finish());
  return state_->file.close();
}

}  // namespace meg::checkpoint
