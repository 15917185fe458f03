#include "client/cli/npy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/npy_header.h"

namespace gemm::cli {
namespace {

absl::Status Fault(const std::string& path, const std::string& fault) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", fault));
}

// A mapping of a whole file; null when it cannot be mapped.
std::shared_ptr<std::byte> Map(int fd, size_t size_bytes, int protection, int flags) {
  void* base = mmap(nullptr, size_bytes, protection, flags, fd, 0);
  if (base == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(base), [size_bytes](std::byte* p) { munmap(p, size_bytes); }};
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::string ToString(const Shape& shape) {
  return shape.empty() ? std::string("scalar") : absl::StrJoin(shape, " x ");
}

int64_t CountElements(const Shape& shape) {
  int64_t count = 1;
  bool wrapped = false;
  bool empty = false;
  for (const int64_t dimension : shape) {
    empty |= dimension == 0;
    wrapped |= __builtin_mul_overflow(count, dimension, &count);
  }
  if (empty) return 0;
  int64_t bytes = 0;
  wrapped |= __builtin_mul_overflow(count, static_cast<int64_t>(sizeof(double)), &bytes);
  return wrapped ? -1 : count;
}

absl::StatusOr<NpyArray> NpyArray::Open(const std::string& path) {
  const OpenFile file(path);
  struct stat info;
  if (file.fd() < 0 || fstat(file.fd(), &info) != 0) {
    return Fault(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return Fault(path, "cannot be read: not a regular file");
  if (info.st_size == 0) return Fault(path, "is empty, not a .npy file");
  const auto file_bytes = static_cast<size_t>(info.st_size);
  const std::shared_ptr<std::byte> base = Map(file.fd(), file_bytes, PROT_READ, MAP_PRIVATE);
  if (base == nullptr) {
    return Fault(path, absl::StrCat("cannot be mapped: ", std::strerror(errno)));
  }

  const absl::StatusOr<NpyHeader> header =
      ParseNpyHeader({reinterpret_cast<const char*>(base.get()), file_bytes});
  if (!header.ok()) return Fault(path, std::string(header.status().message()));
  const int64_t count = CountElements(header->shape);
  if (count < 0) {
    return Fault(path, absl::StrCat("its shape, ", ToString(header->shape), ", is too large"));
  }
  const size_t element_bytes = header->element_type == ElementType::kF32 ? 4 : 8;
  const size_t wanted_bytes = static_cast<size_t>(count) * element_bytes;
  const size_t actual_bytes = file_bytes - header->size_bytes;
  if (actual_bytes != wanted_bytes) {
    return Fault(path,
                 absl::StrCat(actual_bytes < wanted_bytes ? "is truncated" : "is too long",
                              ": its shape, ", ToString(header->shape), ", needs ", wanted_bytes,
                              " bytes of data, but ", actual_bytes, " follow its header"));
  }

  NpyArray array;
  array.path_ = path;
  array.element_type_ = header->element_type;
  array.fortran_order_ = header->fortran_order;
  array.shape_ = header->shape;
  array.data_bytes_ = wanted_bytes;
  if (header->size_bytes % element_bytes == 0) {
    array.data_ = std::shared_ptr<const std::byte>(base, base.get() + header->size_bytes);
  } else {  // Legal, though no NumPy writes it.
    const std::shared_ptr<double[]> aligned(new double[wanted_bytes / sizeof(double) + 1]);
    std::memcpy(aligned.get(), base.get() + header->size_bytes, wanted_bytes);
    array.data_ = std::shared_ptr<const std::byte>(
        aligned, reinterpret_cast<const std::byte*>(aligned.get()));
  }
  return array;
}

absl::StatusOr<NpyWriter> NpyWriter::Create(const std::string& path, ElementType element_type,
                                            const Shape& shape) {
  const int64_t count = CountElements(shape);
  if (count < 0) return Fault(path, absl::StrCat("a shape of ", ToString(shape), " is too large"));
  const std::string header = FormatNpyHeader(element_type, shape);
  const size_t data_bytes =
      static_cast<size_t>(count) * (element_type == ElementType::kF32 ? 4 : 8);
  const size_t file_bytes = header.size() + data_bytes;

  absl::StatusOr<TemporaryFile> file =
      TemporaryFile::Create(path, static_cast<int64_t>(file_bytes));
  if (!file.ok()) return file.status();
  const std::shared_ptr<std::byte> base =
      Map(file->fd(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
  if (base == nullptr) {
    return Fault(path, absl::StrCat("cannot be mapped: ", std::strerror(errno)));
  }
  std::memcpy(base.get(), header.data(), header.size());

  NpyWriter writer(*std::move(file));
  writer.data_ = std::shared_ptr<std::byte>(base, base.get() + header.size());
  writer.data_bytes_ = data_bytes;
  return writer;
}

absl::Status NpyWriter::Commit() {
  data_.reset();
  return file_.Commit();
}

}  // namespace gemm::cli
