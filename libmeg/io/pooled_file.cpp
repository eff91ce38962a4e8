#include "libmeg/io/pooled_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "libmeg/base/fork_mutex.h"

// A checkpoint of many ranks may have more files than a process may have open. RecentFiles is one
// list for the whole process, the file that was used last first, that holds a Pin (a shared_ptr to
// the descriptor) of each open file. A file is closed when the last Pin goes, so throwing one out
// of the list while another thread reads it is harmless: it merely stays open a little longer. The
// key is the address of the PooledFile's State, which the deleter of every Pin keeps alive, so a
// key cannot come back as another file's while a descriptor of the old one is open.

namespace meg::io {
namespace {

using Pin = PooledFile::Pin;

/// The files that were used last, each kept open for its next use.
class RecentFiles {
 public:
  /// nullptr where it is not kept.
  Pin find(const void* key) {
    const std::lock_guard lock(fork_mutex());
    const auto place = places_.find(key);
    if (place == places_.end()) return nullptr;
    files_.splice(files_.begin(), files_, place->second);
    return files_.front().pin;
  }

  /// Keeps it as the one that was used last. Those that were used longest ago go.
  void keep(const void* key, Pin pin) {
    // Declared before the lock, so that files are closed after it: close() may wait for a network.
    std::list<File> gone;
    const std::lock_guard lock(fork_mutex());
    take(key, &gone);
    files_.push_front({key, std::move(pin)});
    places_[key] = files_.begin();
    while (files_.size() > share()) take(files_.back().key, &gone);
  }

  void drop(const void* key) {
    std::list<File> gone;
    const std::lock_guard lock(fork_mutex());
    take(key, &gone);
  }

 private:
  struct File {
    const void* key;
    Pin pin;
  };

  /// A quarter of the files that the process may have open: the rest is for held Pins and for all
  /// else that it does. Asked every time, as a program may raise its limit.
  static size_t share() { return static_cast<size_t>(std::max<int64_t>(1, open_file_limit() / 4)); }

  void take(const void* key, std::list<File>* gone) {
    const auto place = places_.find(key);
    if (place == places_.end()) return;
    gone->splice(gone->begin(), files_, place->second);
    places_.erase(place);
  }

  std::list<File> files_;  // the one that was used last first; fork_mutex() guards it
  std::unordered_map<const void*, std::list<File>::iterator> places_;
};

/// Is never destroyed: files may be closed after main.
RecentFiles& recent_files() {
  static auto* const files = new RecentFiles;
  return *files;
}

Result<FileDescriptor> open_for_writing(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | flags, 0666);
  if (fd < 0) return errno_error(errno, flags & O_CREAT ? "cannot create " + path : path);
  return FileDescriptor(fd, path);
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool is_same_content(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

struct PooledFile::State {
  std::string path;
  bool is_written = false;

  struct stat first {};  // as it was when it was opened for the first time

  Status close_status;  // the first error; guarded by fork_mutex()

  Result<FileDescriptor> open_again() const;
  void close(FileDescriptor* file);
};

/// A path that names another file by now would mix bytes of two files without a sign of it. For
/// files that are written only the file's identity counts: their size and time change by our own
/// writes.
Result<FileDescriptor> PooledFile::State::open_again() const {
  MEG_ASSIGN_OR_RETURN(FileDescriptor file,
                       is_written ? open_for_writing(path, 0) : FileDescriptor::open_regular(path));

  struct stat now {};

  if (::fstat(file.get(), &now) != 0) return errno_error(errno, path);
  if (is_same_file(now, first) && (is_written || is_same_content(now, first))) return file;
  return make_error(StatusCode::kIoError, "{}: changed while it was {}", path,
                    is_written ? "written" : "read");
}

/// Some file systems (NFS among them) say only at close() that a write did not arrive. The pool
/// closes files at any time, so the first such error is kept until PooledFile::close() asks.
void PooledFile::State::close(FileDescriptor* file) {
  Status status = file->close();
  if (status.ok()) return;
  const std::lock_guard lock(fork_mutex());
  if (close_status.ok()) close_status = std::move(status);
}

PooledFile::PooledFile() = default;
PooledFile::PooledFile(PooledFile&&) noexcept = default;

PooledFile::PooledFile(std::shared_ptr<State> state) : state_(std::move(state)) {}

PooledFile& PooledFile::operator=(PooledFile&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

PooledFile::~PooledFile() {
  if (state_ != nullptr) recent_files().drop(state_.get());
}

Result<PooledFile> PooledFile::open(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(FileDescriptor file, FileDescriptor::open_regular(path));
  return keep_first(std::move(file), false);
}

Result<PooledFile> PooledFile::create(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(FileDescriptor file, open_for_writing(path, O_CREAT | O_EXCL));
  return keep_first(std::move(file), true);
}

Result<PooledFile> PooledFile::keep_first(FileDescriptor file, bool is_written) {
  PooledFile pooled(std::make_shared<State>());
  State& state = *pooled.state_;
  state.path = file.path();
  state.is_written = is_written;
  if (::fstat(file.get(), &state.first) != 0) return errno_error(errno, file.path());
  pooled.keep(std::move(file));
  return pooled;
}

Pin PooledFile::keep(FileDescriptor file) const {
  const auto close = [state = state_](FileDescriptor* closed) {
    state->close(closed);
    delete closed;
  };
  Pin pin(new FileDescriptor(std::move(file)), close);
  recent_files().keep(state_.get(), pin);
  return pin;
}

const std::string& PooledFile::path() const { return state_->path; }

Result<Pin> PooledFile::pin() const {
  // Two threads may miss at once and open the file twice; keep() then drops the earlier descriptor.
  if (Pin kept = recent_files().find(state_.get())) return kept;
  MEG_ASSIGN_OR_RETURN(FileDescriptor file, state_->open_again());
  return keep(std::move(file));
}

int64_t PooledFile::size() const { return state_->first.st_size; }

Status PooledFile::read_exactly_at(uint64_t offset, std::span<std::byte> into) const {
  MEG_ASSIGN_OR_RETURN(const Pin file, pin());
  return file->read_exactly_at(offset, into);
}

Status PooledFile::write_at(int64_t offset, std::span<const std::byte> bytes) const {
  MEG_ASSIGN_OR_RETURN(const Pin file, pin());
  return file->write_at(offset, bytes);
}

Status PooledFile::close() {
  recent_files().drop(state_.get());
  const std::lock_guard lock(fork_mutex());
  return state_->close_status;
}

}  // namespace meg::io
