// The matrices that stay on the server: names, owners, which rows are there, budgets, expiry. Pure
// bookkeeping: the memory comes from a function, the time from a Clock, and no byte of a matrix is
// touched here.

#ifndef GEMMD_SERVER_MEMORY_MATRIX_STORE_H_
#define GEMMD_SERVER_MEMORY_MATRIX_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/clock.h"
#include "server/memory/device_matrix.h"
#include "server/memory/row_set.h"

namespace gemm {

// What callers are told of a matrix.
struct MatrixState {
  std::string name;
  MatrixSpec spec;
  int64_t rows_written = 0;
  bool sealed = false;
  absl::Duration time_to_live;
  absl::Duration expires_in;  // unless it is used before
  uint64_t memory_bytes = 0;
  int device = 0;
};

// 1 to 128 of A-Z a-z 0-9 . _ -
bool IsMatrixName(std::string_view name);

// The rows that `row_begin` and `row_count` mean; a count of 0 means all from there on.
// INVALID_ARGUMENT, with the field's name after `field`, when they are not rows of the matrix.
absl::StatusOr<RowRange> ResolveRows(const MatrixSpec& spec, int64_t row_begin, int64_t row_count,
                                     const std::string& field);

class MatrixWrite;

// A matrix is written once, row by row in any order or as a product's result, and then immutable:
// sealed when the last row is there. Nothing is ever overwritten, so every call here may be
// repeated. One that is not used for its time to live is forgotten, as is one that is deleted: its
// name is free at once, its memory when the last user has let go. Every call that names a matrix is
// a use; listing is not.
//
// Names are an owner's own: another owner's matrices are as if they were not there.
//
// Errors: NOT_FOUND (MATRIX_NOT_FOUND); ALREADY_EXISTS (MATRIX_EXISTS) for a name in use for
// something else; FAILED_PRECONDITION (MATRIX_NOT_SEALED); UNAVAILABLE (MATRIX_BUSY) while another
// call makes or writes just what is asked for, (MEMORY_FULL) while there is no room;
// RESOURCE_EXHAUSTED (MEMORY_TOO_SMALL, QUOTA_EXCEEDED) for what cannot be held.
//
// Thread-safe; no lock is held while memory is allocated or freed. Must outlive every MatrixWrite,
// but not the matrices that it has handed out.
class MatrixStore {
 public:
  struct Options {
    std::vector<uint64_t> device_bytes;            // budget on each device, by its index
    uint64_t quota_bytes = 0;                      // of one owner, over all devices
    size_t matrices = 0;                           // of one owner
    absl::Duration time_to_live = absl::Hours(1);  // where none is asked for
  };
  using Allocate =
      std::function<absl::StatusOr<std::unique_ptr<DeviceMatrix>>(int device, const MatrixSpec&)>;

  // `clock` must outlive the store.
  MatrixStore(Options options, Allocate allocate, const Clock& clock);
  ~MatrixStore();

  MatrixStore(const MatrixStore&) = delete;
  MatrixStore& operator=(const MatrixStore&) = delete;

  // A new matrix, on the device with the most room, or the one of this name as it is, if it has
  // this spec. An empty name is made up. `time_to_live` zero: the default. `spec` is valid.
  absl::StatusOr<MatrixState> Create(std::string_view owner, std::string name,
                                     const MatrixSpec& spec, absl::Duration time_to_live);

  absl::StatusOr<MatrixState> Get(std::string_view owner, std::string_view name);

  // Ordered by name, those after `after`, at most `limit`.
  struct Page {
    std::vector<MatrixState> matrices;
    bool more = false;
  };
  Page List(std::string_view owner, std::string_view after, size_t limit);

  absl::Status Delete(std::string_view owner, std::string_view name);

  // A sealed matrix, for as long as the caller holds it.
  absl::StatusOr<std::shared_ptr<const DeviceMatrix>> Use(std::string_view owner,
                                                          std::string_view name);

  // Claims those rows that are not there yet. Rows as ResolveRows takes them.
  absl::StatusOr<MatrixWrite> BeginWrite(std::string_view owner, std::string_view name,
                                         int64_t row_begin, int64_t row_count);

  // Makes a matrix for a product's result and claims all of it; nothing is missing in one that is
  // there already. `device` < 0: the one with the most room. Otherwise as Create.
  absl::StatusOr<MatrixWrite> BeginResult(std::string_view owner, std::string name,
                                          const MatrixSpec& spec, absl::Duration time_to_live,
                                          int device);

  // Forgets what is on a device that is lost, and puts nothing there any more.
  void DropDevice(int device);

  // What is held now, by names or by users of deleted ones. Forgets what has expired.
  uint64_t used_bytes();
  uint64_t budget_bytes() const;  // over all devices
  size_t matrices();
  const Options& options() const { return options_; }

 private:
  friend class MatrixWrite;
  struct Books;
  struct HeldMatrix;
  struct Entry;
  struct Turn;
  using Key = std::pair<std::string, std::string>;  // owner, name
  using Entries = std::map<Key, std::shared_ptr<Entry>>;
  // Entries taken out of the store, to be let go of after the lock.
  using Garbage = std::vector<std::shared_ptr<Entry>>;

  struct Made {
    std::shared_ptr<Entry> entry;
    std::shared_ptr<DeviceMatrix> matrix;
    MatrixState state;
  };

  absl::StatusOr<Made> FindOrMake(std::string_view owner, std::string name, const MatrixSpec& spec,
                                  absl::Duration time_to_live, int device, bool result);
  absl::StatusOr<std::shared_ptr<HeldMatrix>> Hold(const std::string& owner, const MatrixSpec& spec,
                                                   int device);

  // Each requires mutex_.
  void Sweep(absl::Time now, Garbage& garbage);
  void Renew(const std::shared_ptr<Entry>& entry, absl::Time now);
  void Forget(const std::shared_ptr<Entry>& entry, Garbage& garbage);
  absl::StatusOr<std::shared_ptr<Entry>> Find(std::string_view owner, std::string_view name,
                                              absl::Time now);
  MatrixState StateOf(const Entry& entry, absl::Time now) const;

  // For MatrixWrite.
  absl::StatusOr<MatrixState> Commit(const std::shared_ptr<Entry>& entry,
                                     const std::vector<RowRange>& rows);
  void Abandon(const std::shared_ptr<Entry>& entry, const std::vector<RowRange>& rows);

  const Options options_;
  const Allocate allocate_;
  const Clock& clock_;
  const std::shared_ptr<Books> books_;

  std::mutex mutex_;
  // State below is protected by mutex_, as is every Entry.
  Entries entries_;
  std::map<std::string, size_t, std::less<>> counts_;  // entries of each owner
  std::set<std::pair<absl::Time, std::shared_ptr<Entry>>> expiries_;
};

// Rows that nobody else may write meanwhile. Move-only. Without Commit the claim ends with it: the
// rows stay missing, and a matrix made for a result is forgotten.
class MatrixWrite {
 public:
  MatrixWrite(MatrixWrite&& other) noexcept;
  MatrixWrite& operator=(MatrixWrite&& other) noexcept;
  ~MatrixWrite();

  const std::shared_ptr<DeviceMatrix>& matrix() const { return matrix_; }
  RowRange rows() const { return rows_; }                            // as asked for
  const std::vector<RowRange>& missing() const { return missing_; }  // to be written

  // The missing rows have been written. Seals the matrix with its last row. At most once. NOT_FOUND
  // when the matrix has been deleted meanwhile.
  absl::StatusOr<MatrixState> Commit();

 private:
  friend class MatrixStore;
  MatrixWrite(MatrixStore* store, std::shared_ptr<MatrixStore::Entry> entry,
              std::shared_ptr<DeviceMatrix> matrix, RowRange rows, std::vector<RowRange> missing);

  MatrixStore* store_;  // null once committed or moved from
  std::shared_ptr<MatrixStore::Entry> entry_;
  std::shared_ptr<DeviceMatrix> matrix_;
  RowRange rows_;
  std::vector<RowRange> missing_;
};

}  // namespace gemm

#endif  // GEMMD_SERVER_MEMORY_MATRIX_STORE_H_
