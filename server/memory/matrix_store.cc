#include "server/memory/matrix_store.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "proto/limits.h"
#include "server/reason.h"

namespace gemm {
namespace {

std::string MakeUpName() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&name, absl::Hex(random(), absl::kZeroPad8));
  return name;
}

std::string Quoted(std::string_view name) {
  return absl::StrCat("'", absl::string_view(name.data(), name.size()), "'");
}

absl::Status NotFound(std::string_view name) {
  return ErrorWithReason(Reason::kMatrixNotFound,
                         absl::StrCat("there is no matrix ", Quoted(name), " on this server"));
}

std::string TextOf(const MatrixSpec& spec) {
  return absl::StrCat(spec.rows, " x ", spec.columns, " ", std::string(NameOf(spec.dtype)));
}

}  // namespace

bool IsMatrixName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxMatrixNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

absl::StatusOr<RowRange> ResolveRows(const MatrixSpec& spec, int64_t row_begin, int64_t row_count,
                                     const std::string& field) {
  const auto invalid = [&](const char* name, const std::string& message) {
    return ErrorWithReason(Reason::kInvalidRequest, absl::StrCat(field, name, ": ", message),
                           field + name);
  };
  if (row_begin < 0 || row_begin > spec.rows) {
    return invalid("row_begin",
                   absl::StrCat(row_begin, " is not a row: the matrix has ", spec.rows, " rows"));
  }
  const int64_t rest = spec.rows - row_begin;
  if (row_count < 0 || row_count > rest) {
    return invalid("row_count", absl::StrCat(row_count, " rows from row ", row_begin,
                                             " on: the matrix has ", spec.rows, " rows"));
  }
  return RowRange{row_begin, row_begin + (row_count == 0 ? rest : row_count)};
}

// What memory is taken, apart from the entries, since it outlives them in the hands of users.
struct MatrixStore::Books {
  explicit Books(const Options& options) : quota_bytes(options.quota_bytes) {
    for (const uint64_t bytes : options.device_bytes) devices.push_back({.limit_bytes = bytes});
  }

  struct OnDevice {
    uint64_t limit_bytes = 0;
    uint64_t used_bytes = 0;
    bool lost = false;
    uint64_t free_bytes() const { return lost ? 0 : limit_bytes - used_bytes; }
  };

  // Takes `bytes` on `device`, or where there is the most room if it is negative; returns where.
  absl::StatusOr<int> Take(const std::string& owner, uint64_t bytes, int device) {
    const std::lock_guard lock(mutex);
    if (device < 0) {
      const auto emptiest = std::max_element(
          devices.begin(), devices.end(),
          [](const OnDevice& a, const OnDevice& b) { return a.free_bytes() < b.free_bytes(); });
      device = static_cast<int>(emptiest - devices.begin());
    }
    OnDevice& there = devices[static_cast<size_t>(device)];
    if (there.lost) {
      return ErrorWithReason(Reason::kDeviceLost, "the device for the matrix is lost");
    }
    if (bytes > there.limit_bytes) {
      return ErrorWithReason(
          Reason::kMemoryTooSmall,
          absl::StrCat("the matrix needs ", bytes, " bytes, and a device of this server holds ",
                       there.limit_bytes,
                       " of matrices (--matrix-memory): use row panels from the client"));
    }
    if (bytes > there.free_bytes()) {
      return ErrorWithReason(
          Reason::kMemoryFull,
          absl::StrCat("the server's memory for matrices is in use: ", there.used_bytes, " of ",
                       there.limit_bytes, " bytes (--matrix-memory), ", bytes, " are needed"));
    }
    const auto known = owned_bytes.find(owner);
    const uint64_t owned = known == owned_bytes.end() ? 0 : known->second;
    if (bytes > quota_bytes - std::min(quota_bytes, owned)) {
      return ErrorWithReason(
          Reason::kQuotaExceeded,
          absl::StrCat("the matrix needs ", bytes, " bytes; you hold ", owned, " of the ",
                       quota_bytes, " that are yours (--matrix-quota): delete others, or use row ",
                       "panels from the client"));
    }
    there.used_bytes += bytes;
    if (bytes > 0) owned_bytes[owner] += bytes;
    return device;
  }

  void Return(const std::string& owner, uint64_t bytes, int device) {
    if (bytes == 0) return;
    const std::lock_guard lock(mutex);
    devices[static_cast<size_t>(device)].used_bytes -= bytes;
    const auto owned = owned_bytes.find(owner);
    owned->second -= bytes;
    if (owned->second == 0) owned_bytes.erase(owned);
  }

  bool IsLost(int device) {
    const std::lock_guard lock(mutex);
    return devices[static_cast<size_t>(device)].lost;
  }

  const uint64_t quota_bytes;
  std::mutex mutex;
  // State below is protected by mutex.
  std::vector<OnDevice> devices;
  std::map<std::string, uint64_t> owned_bytes;
};

// A matrix's memory with its place in the books.
struct MatrixStore::HeldMatrix {
  HeldMatrix(std::shared_ptr<Books> in_books, std::string of_owner, uint64_t of_bytes,
             int on_device)
      : books(std::move(in_books)),
        owner(std::move(of_owner)),
        bytes(of_bytes),
        device(on_device) {}
  ~HeldMatrix() {
    memory.reset();
    books->Return(owner, bytes, device);
  }
  HeldMatrix(const HeldMatrix&) = delete;
  HeldMatrix& operator=(const HeldMatrix&) = delete;

  const std::shared_ptr<Books> books;
  const std::string owner;
  const uint64_t bytes;
  const int device;
  std::unique_ptr<DeviceMatrix> memory;
};

struct MatrixStore::Entry {
  Key key;
  MatrixSpec spec;
  absl::Duration time_to_live;
  bool result = false;               // made for a product's result
  std::shared_ptr<HeldMatrix> held;  // null while its memory is allocated
  RowSet written;
  RowSet claimed;
  bool gone = false;                            // out of the store: its name may be another's
  absl::Time expires = absl::InfiniteFuture();  // infinite: not among the expiries

  const std::string& name() const { return key.second; }
  bool sealed() const { return written.count() == spec.rows; }
  std::shared_ptr<DeviceMatrix> matrix() const { return {held, held->memory.get()}; }
  bool in_use() const { return !claimed.empty() || held.use_count() > 1; }
};

MatrixStore::MatrixStore(Options options, Allocate allocate, const Clock& clock)
    : options_(std::move(options)),
      allocate_(std::move(allocate)),
      clock_(clock),
      books_(std::make_shared<Books>(options_)) {}

MatrixStore::~MatrixStore() = default;

// A call's time with the lock, which begins by forgetting what has expired. What it takes out of
// the store is let go of after the lock.
struct MatrixStore::Turn {
  explicit Turn(MatrixStore& store) : lock(store.mutex_), now(store.clock_.Now()) {
    store.Sweep(now, garbage);
  }

  Garbage garbage;  // outlives the lock
  const std::lock_guard<std::mutex> lock;
  const absl::Time now;
};

void MatrixStore::Sweep(absl::Time now, Garbage& garbage) {
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    const std::shared_ptr<Entry> entry = expiries_.begin()->second;
    if (entry->in_use()) {
      Renew(entry, now);
    } else {
      Forget(entry, garbage);
    }
  }
}

void MatrixStore::Renew(const std::shared_ptr<Entry>& entry, absl::Time now) {
  expiries_.erase({entry->expires, entry});
  entry->expires = now + entry->time_to_live;
  expiries_.insert({entry->expires, entry});
}

void MatrixStore::Forget(const std::shared_ptr<Entry>& entry, Garbage& garbage) {
  expiries_.erase({entry->expires, entry});
  entries_.erase(entry->key);
  const auto count = counts_.find(entry->key.first);
  if (--count->second == 0) counts_.erase(count);
  entry->gone = true;
  garbage.push_back(entry);
}

absl::StatusOr<std::shared_ptr<MatrixStore::Entry>> MatrixStore::Find(std::string_view owner,
                                                                      std::string_view name,
                                                                      absl::Time now) {
  const auto found = entries_.find(Key(owner, name));
  if (found == entries_.end()) return NotFound(name);
  if (found->second->held == nullptr) {
    return ErrorWithReason(Reason::kMatrixBusy,
                           absl::StrCat("matrix ", Quoted(name), " is just being made"));
  }
  Renew(found->second, now);
  return found->second;
}

MatrixState MatrixStore::StateOf(const Entry& entry, absl::Time now) const {
  return {.name = entry.name(),
          .spec = entry.spec,
          .rows_written = entry.written.count(),
          .sealed = entry.sealed(),
          .time_to_live = entry.time_to_live,
          .expires_in = entry.expires - now,
          .memory_bytes = entry.held->bytes,
          .device = entry.held->device};
}

absl::StatusOr<MatrixStore::Made> MatrixStore::FindOrMake(std::string_view owner, std::string name,
                                                          const MatrixSpec& spec,
                                                          absl::Duration time_to_live, int device,
                                                          bool result) {
  if (name.empty()) name = MakeUpName();
  if (time_to_live == absl::ZeroDuration()) time_to_live = options_.time_to_live;
  auto entry = std::make_shared<Entry>();
  {
    const Turn turn(*this);
    if (entries_.contains(Key(owner, name))) {
      absl::StatusOr<std::shared_ptr<Entry>> found = Find(owner, name, turn.now);
      if (!found.ok()) return found.status();
      const Entry& there = **found;
      if (there.spec != spec) {
        return ErrorWithReason(Reason::kMatrixExists,
                               absl::StrCat("matrix ", Quoted(name), " exists as ",
                                            TextOf(there.spec), ", not ", TextOf(spec)));
      }
      if (result && !there.sealed()) {
        if (there.result) {
          return ErrorWithReason(
              Reason::kMatrixBusy,
              absl::StrCat("matrix ", Quoted(name), " is being computed by another call"));
        }
        return ErrorWithReason(
            Reason::kMatrixExists,
            absl::StrCat("matrix ", Quoted(name), " exists, and is written by rows"));
      }
      return Made{*found, there.matrix(), StateOf(there, turn.now)};
    }
    const auto count = counts_.find(owner);
    if (count != counts_.end() && count->second >= options_.matrices) {
      return ErrorWithReason(Reason::kQuotaExceeded,
                             absl::StrCat("you have ", count->second, " matrices, as many as may ",
                                          "be yours (--matrix-count): delete others"));
    }
    entry->key = Key(owner, name);
    entry->spec = spec;
    entry->time_to_live = time_to_live;
    entry->result = result;
    entries_.emplace(entry->key, entry);
    ++counts_[entry->key.first];
  }

  absl::StatusOr<std::shared_ptr<HeldMatrix>> held = Hold(entry->key.first, spec, device);

  std::shared_ptr<HeldMatrix> useless;  // before the lock, so that it is let go of after
  Turn turn(*this);
  if (held.ok() && books_->IsLost((*held)->device)) {  // since it was taken
    useless = *std::move(held);
    held = ErrorWithReason(Reason::kDeviceLost, "the device for the matrix is lost");
  }
  if (!held.ok()) {
    Forget(entry, turn.garbage);
    return held.status();
  }
  entry->held = *std::move(held);
  const RowRange all{0, spec.rows};
  if (spec.columns == 0) {
    entry->written.Add(all);
  } else if (result) {
    entry->claimed.Add(all);
  }
  Renew(entry, turn.now);
  return Made{entry, entry->matrix(), StateOf(*entry, turn.now)};
}

absl::StatusOr<std::shared_ptr<MatrixStore::HeldMatrix>> MatrixStore::Hold(const std::string& owner,
                                                                           const MatrixSpec& spec,
                                                                           int device) {
  const uint64_t bytes = MemoryBytes(spec);
  const absl::StatusOr<int> taken = books_->Take(owner, bytes, device);
  if (!taken.ok()) return taken.status();
  auto held = std::make_shared<HeldMatrix>(books_, owner, bytes, *taken);
  if (bytes == 0) {
    held->memory = std::make_unique<DeviceMatrix>(*taken, spec, nullptr);
  } else {
    absl::StatusOr<std::unique_ptr<DeviceMatrix>> memory = allocate_(*taken, spec);
    if (!memory.ok()) return memory.status();
    held->memory = *std::move(memory);
  }
  return held;
}

absl::StatusOr<MatrixState> MatrixStore::Create(std::string_view owner, std::string name,
                                                const MatrixSpec& spec,
                                                absl::Duration time_to_live) {
  absl::StatusOr<Made> made =
      FindOrMake(owner, std::move(name), spec, time_to_live, /*device=*/-1, /*result=*/false);
  if (!made.ok()) return made.status();
  return std::move(made->state);
}

absl::StatusOr<MatrixState> MatrixStore::Get(std::string_view owner, std::string_view name) {
  Turn turn(*this);
  const absl::StatusOr<std::shared_ptr<Entry>> entry = Find(owner, name, turn.now);
  if (!entry.ok()) return entry.status();
  return StateOf(**entry, turn.now);
}

MatrixStore::Page MatrixStore::List(std::string_view owner, std::string_view after, size_t limit) {
  Turn turn(*this);
  Page page;
  for (auto it = entries_.upper_bound(Key(owner, after));
       it != entries_.end() && it->first.first == owner; ++it) {
    if (it->second->held == nullptr) continue;
    if (page.matrices.size() == limit) {
      page.more = true;
      break;
    }
    page.matrices.push_back(StateOf(*it->second, turn.now));
  }
  return page;
}

absl::Status MatrixStore::Delete(std::string_view owner, std::string_view name) {
  Turn turn(*this);
  const absl::StatusOr<std::shared_ptr<Entry>> entry = Find(owner, name, turn.now);
  if (!entry.ok()) return entry.status();
  Forget(*entry, turn.garbage);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const DeviceMatrix>> MatrixStore::Use(std::string_view owner,
                                                                     std::string_view name) {
  Turn turn(*this);
  const absl::StatusOr<std::shared_ptr<Entry>> found = Find(owner, name, turn.now);
  if (!found.ok()) return found.status();
  const Entry& entry = **found;
  if (entry.sealed()) return entry.matrix();
  if (entry.result) {
    return ErrorWithReason(Reason::kMatrixBusy,
                           absl::StrCat("matrix ", Quoted(name), " is still being computed"));
  }
  return ErrorWithReason(Reason::kMatrixNotSealed,
                         absl::StrCat("matrix ", Quoted(name), " is not fully written: ",
                                      entry.written.count(), " of ", entry.spec.rows, " rows"));
}

absl::StatusOr<MatrixWrite> MatrixStore::BeginWrite(std::string_view owner, std::string_view name,
                                                    int64_t row_begin, int64_t row_count) {
  Turn turn(*this);
  const absl::StatusOr<std::shared_ptr<Entry>> found = Find(owner, name, turn.now);
  if (!found.ok()) return found.status();
  Entry& entry = **found;
  const absl::StatusOr<RowRange> rows = ResolveRows(entry.spec, row_begin, row_count, "");
  if (!rows.ok()) return rows.status();
  if (entry.claimed.Intersects(*rows)) {
    return ErrorWithReason(Reason::kMatrixBusy, absl::StrCat("another call is writing rows of ",
                                                             Quoted(name), " just now"));
  }
  std::vector<RowRange> missing = entry.written.Missing(*rows);
  for (const RowRange& range : missing) entry.claimed.Add(range);
  return MatrixWrite(this, *found, entry.matrix(), *rows, std::move(missing));
}

absl::StatusOr<MatrixWrite> MatrixStore::BeginResult(std::string_view owner, std::string name,
                                                     const MatrixSpec& spec,
                                                     absl::Duration time_to_live, int device) {
  absl::StatusOr<Made> made =
      FindOrMake(owner, std::move(name), spec, time_to_live, device, /*result=*/true);
  if (!made.ok()) return made.status();
  const RowRange all{0, spec.rows};
  std::vector<RowRange> missing;
  if (!made->state.sealed) missing.push_back(all);
  return MatrixWrite(this, std::move(made->entry), std::move(made->matrix), all,
                     std::move(missing));
}

absl::StatusOr<MatrixState> MatrixStore::Commit(const std::shared_ptr<Entry>& entry,
                                                const std::vector<RowRange>& rows) {
  const Turn turn(*this);
  if (entry->gone) return NotFound(entry->name());
  for (const RowRange& range : rows) {
    entry->claimed.Remove(range);
    entry->written.Add(range);
  }
  Renew(entry, turn.now);
  return StateOf(*entry, turn.now);
}

void MatrixStore::Abandon(const std::shared_ptr<Entry>& entry, const std::vector<RowRange>& rows) {
  Turn turn(*this);
  for (const RowRange& range : rows) entry->claimed.Remove(range);
  if (entry->result && !entry->gone && !rows.empty()) Forget(entry, turn.garbage);
}

void MatrixStore::DropDevice(int device) {
  Turn turn(*this);
  {
    const std::lock_guard books_lock(books_->mutex);
    books_->devices[static_cast<size_t>(device)].lost = true;
  }
  for (auto it = entries_.begin(); it != entries_.end();) {
    const std::shared_ptr<Entry> entry = (it++)->second;
    if (entry->held != nullptr && entry->held->device == device) Forget(entry, turn.garbage);
  }
}

uint64_t MatrixStore::used_bytes() {
  { const Turn turn(*this); }
  const std::lock_guard lock(books_->mutex);
  uint64_t used = 0;
  for (const Books::OnDevice& device : books_->devices) used += device.used_bytes;
  return used;
}

uint64_t MatrixStore::budget_bytes() const {
  uint64_t budget = 0;
  for (const uint64_t bytes : options_.device_bytes) budget += bytes;
  return budget;
}

size_t MatrixStore::matrices() {
  const Turn turn(*this);
  return entries_.size();
}

MatrixWrite::MatrixWrite(MatrixStore* store, std::shared_ptr<MatrixStore::Entry> entry,
                         std::shared_ptr<DeviceMatrix> matrix, RowRange rows,
                         std::vector<RowRange> missing)
    : store_(store),
      entry_(std::move(entry)),
      matrix_(std::move(matrix)),
      rows_(rows),
      missing_(std::move(missing)) {}

MatrixWrite::MatrixWrite(MatrixWrite&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      entry_(std::move(other.entry_)),
      matrix_(std::move(other.matrix_)),
      rows_(other.rows_),
      missing_(std::move(other.missing_)) {}

MatrixWrite& MatrixWrite::operator=(MatrixWrite&& other) noexcept {
  std::swap(store_, other.store_);
  std::swap(entry_, other.entry_);
  std::swap(matrix_, other.matrix_);
  std::swap(rows_, other.rows_);
  std::swap(missing_, other.missing_);
  return *this;
}

MatrixWrite::~MatrixWrite() {
  if (store_ != nullptr) store_->Abandon(entry_, missing_);
}

absl::StatusOr<MatrixState> MatrixWrite::Commit() {
  return std::exchange(store_, nullptr)->Commit(entry_, missing_);
}

}  // namespace gemm
