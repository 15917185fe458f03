#include "server/memory/matrix_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/reason.h"
#include "tests/server/engine/fake_clock.h"

namespace gemm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kBudget = 1 << 20;

// Counts what is alive; holds no memory, which the store never touches.
class FakeMatrix final : public DeviceMatrix {
 public:
  FakeMatrix(int device, const MatrixSpec& spec, std::atomic<int>& alive)
      : DeviceMatrix(device, spec, nullptr), alive_(alive) {
    ++alive_;
  }
  ~FakeMatrix() override { --alive_; }

 private:
  std::atomic<int>& alive_;
};

class MatrixStoreTest : public testing::Test {
 protected:
  MatrixStore::Allocate Allocator() {
    return [this](int device,
                  const MatrixSpec& spec) -> absl::StatusOr<std::unique_ptr<DeviceMatrix>> {
      if (on_allocate) on_allocate();
      if (refuse) return ErrorWithReason(Reason::kMemoryFull, "the device has none");
      return std::make_unique<FakeMatrix>(device, spec, alive);
    };
  }

  // Rows of 4 bytes.
  static MatrixSpec Rows(int64_t rows) { return {DType::kF32, rows, 1}; }

  absl::Status Write(int64_t begin, int64_t count, std::string_view name = "x") {
    absl::StatusOr<MatrixWrite> write = store.BeginWrite("me", name, begin, count);
    if (!write.ok()) return write.status();
    return write->Commit().status();
  }

  std::vector<std::string> Names(std::string_view owner) {
    std::vector<std::string> names;
    for (const MatrixState& state : store.List(owner, "", 1000).matrices) {
      names.push_back(state.name);
    }
    return names;
  }

  FakeClock clock;
  std::atomic<int> alive{0};
  std::function<void()> on_allocate;
  bool refuse = false;
  MatrixStore store{{.device_bytes = {kBudget},
                     .quota_bytes = kBudget / 2,
                     .matrices = 100,
                     .time_to_live = absl::Minutes(10)},
                    Allocator(),
                    clock};
};

#define EXPECT_REASON(expression, reason) EXPECT_EQ(ReasonOf((expression)), Reason::reason)

TEST(DeviceMatrixTest, PadsLongRowsAndNoOthers) {
  EXPECT_EQ(LeadingDimension({DType::kF32, 5, 255}), 255);
  EXPECT_EQ(LeadingDimension({DType::kF32, 5, 256}), 256);
  EXPECT_EQ(LeadingDimension({DType::kF32, 5, 257}), 288);
  EXPECT_EQ(LeadingDimension({DType::kF64, 5, 129}), 144);
  EXPECT_EQ(LeadingDimension({DType::kF32, 5, 0}), 1);
  EXPECT_EQ(MemoryBytes({DType::kF64, 3, 129}), 3u * 144 * 8);
  EXPECT_EQ(MemoryBytes({DType::kF32, int64_t{1} << 40, 0}), 0u);
  EXPECT_EQ(MemoryBytes({DType::kF32, int64_t{1} << 30, 16}), uint64_t{1} << 36);
}

TEST(DeviceMatrixTest, RefusesSizesThatWrap) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(IsValid({DType::kF32, 0, 0}));
  EXPECT_TRUE(IsValid({DType::kF64, int64_t{1} << 29, int64_t{1} << 30}));
  EXPECT_FALSE(IsValid({DType::kF64, int64_t{1} << 30, int64_t{1} << 30}));
  EXPECT_FALSE(IsValid({DType::kF32, -1, 5}));
  EXPECT_FALSE(IsValid({DType::kF32, 5, -1}));
  EXPECT_FALSE(IsValid({DType::kF32, kMost, kMost}));
  EXPECT_FALSE(IsValid({DType::kF64, 1, kMost}));
  EXPECT_FALSE(IsValid({DType::kF64, kMost, 0}));
}

TEST_F(MatrixStoreTest, NamesArePlain) {
  EXPECT_TRUE(IsMatrixName("a"));
  EXPECT_TRUE(IsMatrixName("0b2cE-_.9"));
  EXPECT_TRUE(IsMatrixName(std::string(128, 'x')));
  EXPECT_FALSE(IsMatrixName(std::string(129, 'x')));
  for (const char* name : {"", "a b", "a/b", "\xc3\xa4", "a\n", "'"}) {
    EXPECT_FALSE(IsMatrixName(name)) << name;
  }
}

TEST_F(MatrixStoreTest, IsSealedByItsLastRowAndOnlyThen) {
  ASSERT_TRUE(store.Create("me", "x", Rows(10), absl::ZeroDuration()).ok());
  EXPECT_REASON(store.Use("me", "x").status(), kMatrixNotSealed);
  EXPECT_TRUE(Write(7, 3).ok());
  EXPECT_TRUE(Write(0, 5).ok());
  EXPECT_REASON(store.Use("me", "x").status(), kMatrixNotSealed);
  EXPECT_EQ(store.Get("me", "x")->rows_written, 8);
  EXPECT_FALSE(store.Get("me", "x")->sealed);
  EXPECT_TRUE(Write(5, 2).ok());
  EXPECT_TRUE(store.Get("me", "x")->sealed);
  ASSERT_TRUE(store.Use("me", "x").ok());
  EXPECT_EQ((*store.Use("me", "x"))->spec(), Rows(10));
}

TEST_F(MatrixStoreTest, WritesOnlyRowsThatAreMissing) {
  ASSERT_TRUE(store.Create("me", "x", Rows(10), absl::ZeroDuration()).ok());
  ASSERT_TRUE(Write(2, 3).ok());
  {
    absl::StatusOr<MatrixWrite> write = store.BeginWrite("me", "x", 0, 0);
    ASSERT_TRUE(write.ok());
    EXPECT_EQ(write->rows(), (RowRange{0, 10}));
    EXPECT_THAT(write->missing(), ElementsAre(RowRange{0, 2}, RowRange{5, 10}));
    EXPECT_TRUE(write->Commit()->sealed);
  }
  absl::StatusOr<MatrixWrite> again = store.BeginWrite("me", "x", 3, 4);
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(again->missing(), IsEmpty());
  EXPECT_TRUE(again->Commit()->sealed);
}

TEST_F(MatrixStoreTest, RowsHaveOneWriterAtATime) {
  ASSERT_TRUE(store.Create("me", "x", Rows(10), absl::ZeroDuration()).ok());
  {
    absl::StatusOr<MatrixWrite> first = store.BeginWrite("me", "x", 2, 4);
    ASSERT_TRUE(first.ok());
    EXPECT_REASON(Write(5, 3), kMatrixBusy);
    EXPECT_EQ(store.Get("me", "x")->rows_written, 0);  // and claimed nothing
    EXPECT_TRUE(Write(6, 3).ok());
    EXPECT_EQ(store.Get("me", "x")->rows_written, 3);
  }  // not committed
  EXPECT_EQ(store.Get("me", "x")->rows_written, 3);
  EXPECT_TRUE(Write(0, 0).ok());
  EXPECT_TRUE(store.Get("me", "x")->sealed);
}

TEST_F(MatrixStoreTest, RowsOutsideAreRefusedByField) {
  ASSERT_TRUE(store.Create("me", "x", Rows(10), absl::ZeroDuration()).ok());
  const auto field = [&](int64_t begin, int64_t count) { return FieldOf(Write(begin, count)); };
  EXPECT_EQ(field(-1, 1), "row_begin");
  EXPECT_EQ(field(11, 0), "row_begin");
  EXPECT_EQ(field(0, 11), "row_count");
  EXPECT_EQ(field(9, 2), "row_count");
  EXPECT_EQ(field(0, -1), "row_count");
  EXPECT_EQ(field(std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()),
            "row_begin");
  EXPECT_EQ(field(5, std::numeric_limits<int64_t>::max()), "row_count");
  EXPECT_EQ(field(10, 0), "");
}

TEST_F(MatrixStoreTest, CreatingAgainAnswersTheSameAndAnotherShapeDoesNot) {
  ASSERT_TRUE(store.Create("me", "x", Rows(10), absl::ZeroDuration()).ok());
  ASSERT_TRUE(Write(0, 4).ok());
  const absl::StatusOr<MatrixState> again = store.Create("me", "x", Rows(10), absl::Minutes(1));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->rows_written, 4);
  EXPECT_EQ(alive, 1);
  EXPECT_REASON(store.Create("me", "x", Rows(11), absl::ZeroDuration()).status(), kMatrixExists);
  EXPECT_REASON(store.Create("me", "x", {DType::kF64, 10, 1}, absl::ZeroDuration()).status(),
                kMatrixExists);
  EXPECT_TRUE(store.Create("me", "y", Rows(11), absl::ZeroDuration()).ok());
}

TEST_F(MatrixStoreTest, MakesUpNames) {
  const std::string first = store.Create("me", "", Rows(1), absl::ZeroDuration())->name;
  const std::string second = store.Create("me", "", Rows(1), absl::ZeroDuration())->name;
  EXPECT_TRUE(IsMatrixName(first));
  EXPECT_NE(first, second);
  EXPECT_TRUE(store.Get("me", first).ok());
}

TEST_F(MatrixStoreTest, WithoutElementsIsSealedAtOnce) {
  EXPECT_TRUE(store.Create("me", "rows", Rows(0), absl::ZeroDuration())->sealed);
  const MatrixSpec no_columns{DType::kF32, int64_t{1} << 40, 0};
  EXPECT_TRUE(store.Create("me", "columns", no_columns, absl::ZeroDuration())->sealed);
  EXPECT_EQ(alive, 0);
  EXPECT_TRUE(store.Use("me", "rows").ok());
  absl::StatusOr<MatrixWrite> result =
      store.BeginResult("me", "result", Rows(0), absl::ZeroDuration(), 0);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->missing(), IsEmpty());
  EXPECT_TRUE(result->Commit()->sealed);
}

TEST_F(MatrixStoreTest, MatricesWithoutMemoryCountForNone) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(store.Create("me", name, Rows(0), absl::ZeroDuration()).ok());
  }
  ASSERT_TRUE(store.Create("me", "x", Rows(4), absl::ZeroDuration()).ok());
  for (const char* name : {"a", "x", "b", "c"}) EXPECT_TRUE(store.Delete("me", name).ok());
  EXPECT_EQ(store.used_bytes(), 0u);
  EXPECT_TRUE(store.Create("me", "x", Rows(4), absl::ZeroDuration()).ok());
  EXPECT_EQ(store.used_bytes(), 16u);
}

TEST_F(MatrixStoreTest, AnotherOwnersAreAsIfTheyWereNotThere) {
  ASSERT_TRUE(store.Create("me", "x", Rows(1), absl::ZeroDuration()).ok());
  ASSERT_TRUE(Write(0, 1).ok());
  EXPECT_REASON(store.Get("you", "x").status(), kMatrixNotFound);
  EXPECT_REASON(store.Use("you", "x").status(), kMatrixNotFound);
  EXPECT_REASON(store.BeginWrite("you", "x", 0, 1).status(), kMatrixNotFound);
  EXPECT_REASON(store.Delete("you", "x"), kMatrixNotFound);
  EXPECT_THAT(Names("you"), IsEmpty());
  // And so the name is free for another shape.
  EXPECT_TRUE(store.Create("you", "x", Rows(7), absl::ZeroDuration()).ok());
  EXPECT_THAT(Names("you"), ElementsAre("x"));
  EXPECT_THAT(Names("me"), ElementsAre("x"));
  EXPECT_THAT(Names("m"), IsEmpty());
  EXPECT_THAT(Names("mf"), IsEmpty());
}

TEST_F(MatrixStoreTest, NotFoundNamesTheMatrix) {
  EXPECT_TRUE(absl::StrContains(store.Get("me", "gone-1").status().message(), "'gone-1'"));
}

TEST_F(MatrixStoreTest, DeletingFreesTheNameAtOnceAndTheMemoryWithItsLastUser) {
  ASSERT_TRUE(store.Create("me", "x", Rows(8), absl::ZeroDuration()).ok());
  ASSERT_TRUE(Write(0, 8).ok());
  std::shared_ptr<const DeviceMatrix> used = *store.Use("me", "x");
  EXPECT_TRUE(store.Delete("me", "x").ok());
  EXPECT_REASON(store.Use("me", "x").status(), kMatrixNotFound);
  EXPECT_REASON(store.Delete("me", "x"), kMatrixNotFound);
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(store.used_bytes(), 32u);
  EXPECT_TRUE(store.Create("me", "x", Rows(2), absl::ZeroDuration()).ok());
  EXPECT_EQ(store.used_bytes(), 40u);
  used.reset();
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(store.used_bytes(), 8u);
}

TEST_F(MatrixStoreTest, AWriteThatADeleteOvertookSaysSoAndTouchesNothing) {
  ASSERT_TRUE(store.Create("me", "x", Rows(4), absl::ZeroDuration()).ok());
  absl::StatusOr<MatrixWrite> write = store.BeginWrite("me", "x", 0, 0);
  ASSERT_TRUE(write.ok());
  ASSERT_TRUE(store.Delete("me", "x").ok());
  ASSERT_TRUE(store.Create("me", "x", Rows(4), absl::ZeroDuration()).ok());
  EXPECT_REASON(write->Commit().status(), kMatrixNotFound);
  EXPECT_EQ(store.Get("me", "x")->rows_written, 0);
}

TEST_F(MatrixStoreTest, ExpiresWhenIdleAndEveryUseRenewsIt) {
  ASSERT_TRUE(store.Create("me", "x", Rows(4), absl::Seconds(10)).ok());
  ASSERT_TRUE(store.Create("me", "default", Rows(4), absl::ZeroDuration()).ok());
  const std::function<void()> uses[] = {
      [&] { EXPECT_TRUE(Write(0, 4).ok()); }, [&] { EXPECT_TRUE(store.Get("me", "x").ok()); },
      [&] { EXPECT_TRUE(store.Use("me", "x").ok()); },
      [&] { EXPECT_TRUE(store.Create("me", "x", Rows(4), absl::ZeroDuration()).ok()); },
      [&] {
        EXPECT_TRUE(store.BeginResult("me", "x", Rows(4), absl::ZeroDuration(), 0)->Commit().ok());
      }};
  for (const auto& use : uses) {
    clock.Advance(absl::Seconds(9));
    use();
  }
  clock.Advance(absl::Seconds(9));
  EXPECT_EQ(store.List("me", "", 10).matrices.back().expires_in, absl::Seconds(1));
  clock.Advance(absl::Seconds(1));  // listing was no use
  EXPECT_REASON(store.Get("me", "x").status(), kMatrixNotFound);
  EXPECT_EQ(alive, 1);
  EXPECT_THAT(Names("me"), ElementsAre("default"));
  clock.Advance(absl::Minutes(10));
  EXPECT_EQ(store.used_bytes(), 0u);  // a look at the gauge forgets too
  EXPECT_EQ(alive, 0);
}

TEST_F(MatrixStoreTest, DoesNotExpireInUse) {
  ASSERT_TRUE(store.Create("me", "x", Rows(4), absl::Seconds(10)).ok());
  {
    absl::StatusOr<MatrixWrite> write = store.BeginWrite("me", "x", 0, 0);
    clock.Advance(absl::Seconds(60));
    EXPECT_EQ(store.matrices(), 1u);
    EXPECT_TRUE(write->Commit().ok());
  }
  {
    const auto used = store.Use("me", "x");
    clock.Advance(absl::Seconds(60));
    EXPECT_EQ(store.matrices(), 1u);
  }
  // Let go of, it has its whole time again.
  clock.Advance(absl::Seconds(9));
  EXPECT_EQ(store.matrices(), 1u);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(store.matrices(), 0u);
}

TEST_F(MatrixStoreTest, ListsByPage) {
  for (const char* name : {"d", "b", "a", "c"}) {
    ASSERT_TRUE(store.Create("me", name, Rows(1), absl::ZeroDuration()).ok());
  }
  const auto listed = [&](std::string_view after, size_t limit) {
    std::vector<std::string> names;
    const MatrixStore::Page page = store.List("me", after, limit);
    for (const MatrixState& state : page.matrices) names.push_back(state.name);
    names.emplace_back(page.more ? "..." : "end");
    return names;
  };
  EXPECT_THAT(listed("", 3), ElementsAre("a", "b", "c", "..."));
  EXPECT_THAT(listed("c", 3), ElementsAre("d", "end"));
  EXPECT_THAT(listed("", 4), ElementsAre("a", "b", "c", "d", "end"));
  EXPECT_THAT(listed("bb", 1), ElementsAre("c", "..."));
  EXPECT_THAT(listed("d", 1), ElementsAre("end"));
}

TEST_F(MatrixStoreTest, SaysWhetherThereIsNoRoomEverOrNow) {
  const auto create = [&](std::string_view owner, const char* name, uint64_t bytes) {
    const auto rows = static_cast<int64_t>(bytes / 4);
    return store.Create(owner, name, Rows(rows), absl::ZeroDuration()).status();
  };
  EXPECT_REASON(create("me", "x", kBudget + 4), kMemoryTooSmall);
  EXPECT_TRUE(absl::StrContains(create("me", "x", kBudget + 4).message(), "row panels"));
  EXPECT_REASON(create("me", "x", kBudget / 2 + 4), kQuotaExceeded);
  EXPECT_TRUE(create("me", "x", kBudget / 2).ok());
  EXPECT_REASON(create("me", "y", 4), kQuotaExceeded);
  EXPECT_TRUE(create("you", "x", kBudget / 2 - 4).ok());
  EXPECT_REASON(create("they", "x", 8), kMemoryFull);
  EXPECT_TRUE(create("they", "x", 4).ok());
  EXPECT_EQ(store.used_bytes(), kBudget);
  EXPECT_REASON(create("me", "y", 4), kMemoryFull);  // which may pass, as a quota does not
  EXPECT_EQ(store.budget_bytes(), kBudget);
  ASSERT_TRUE(store.Delete("me", "x").ok());
  EXPECT_TRUE(create("me", "y", 4).ok());
  EXPECT_THAT(Names("me"), ElementsAre("y"));  // nothing of what was refused has stayed
}

TEST_F(MatrixStoreTest, CountsMatricesToo) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(store.Create("me", absl::StrCat("x", i), Rows(0), absl::ZeroDuration()).ok());
  }
  EXPECT_REASON(store.Create("me", "y", Rows(0), absl::ZeroDuration()).status(), kQuotaExceeded);
  EXPECT_TRUE(store.Create("you", "y", Rows(0), absl::ZeroDuration()).ok());
  EXPECT_TRUE(store.Create("me", "x7", Rows(0), absl::ZeroDuration()).ok());
  ASSERT_TRUE(store.Delete("me", "x7").ok());
  EXPECT_TRUE(store.Create("me", "y", Rows(0), absl::ZeroDuration()).ok());
}

TEST_F(MatrixStoreTest, AllocatesWithoutTheLockAndTheNameIsTakenMeanwhile) {
  on_allocate = [&] {
    on_allocate = nullptr;
    EXPECT_REASON(store.Create("me", "x", Rows(4), absl::ZeroDuration()).status(), kMatrixBusy);
    EXPECT_REASON(store.Get("me", "x").status(), kMatrixBusy);
    EXPECT_REASON(store.Delete("me", "x"), kMatrixBusy);
    EXPECT_THAT(Names("me"), IsEmpty());
    clock.Advance(absl::Hours(1));
    EXPECT_TRUE(store.Create("me", "y", Rows(4), absl::ZeroDuration()).ok());
  };
  EXPECT_TRUE(store.Create("me", "x", Rows(4), absl::ZeroDuration()).ok());
  EXPECT_THAT(Names("me"), ElementsAre("x", "y"));
}

TEST_F(MatrixStoreTest, LeavesNothingWhenTheDeviceHasNoMemory) {
  refuse = true;
  EXPECT_REASON(store.Create("me", "x", Rows(4), absl::ZeroDuration()).status(), kMemoryFull);
  EXPECT_EQ(store.used_bytes(), 0u);
  EXPECT_EQ(store.matrices(), 0u);
  refuse = false;
  EXPECT_TRUE(store.Create("me", "x", Rows(5), absl::ZeroDuration()).ok());
}

TEST_F(MatrixStoreTest, AResultIsSealedAtOnceOrForgotten) {
  {
    absl::StatusOr<MatrixWrite> result =
        store.BeginResult("me", "d", Rows(4), absl::ZeroDuration(), -1);
    ASSERT_TRUE(result.ok());
    EXPECT_THAT(result->missing(), ElementsAre(RowRange{0, 4}));
    EXPECT_REASON(store.Use("me", "d").status(), kMatrixBusy);
    EXPECT_REASON(Write(0, 1, "d"), kMatrixBusy);
    EXPECT_REASON(store.BeginResult("me", "d", Rows(4), absl::ZeroDuration(), -1).status(),
                  kMatrixBusy);
  }  // the product failed
  EXPECT_REASON(store.Get("me", "d").status(), kMatrixNotFound);
  EXPECT_EQ(alive, 0);
  {
    absl::StatusOr<MatrixWrite> result =
        store.BeginResult("me", "d", Rows(4), absl::ZeroDuration(), -1);
    ASSERT_TRUE(result.ok());
    EXPECT_TRUE(result->Commit()->sealed);
  }
  EXPECT_TRUE(store.Use("me", "d").ok());
  {
    absl::StatusOr<MatrixWrite> retry =
        store.BeginResult("me", "d", Rows(4), absl::ZeroDuration(), -1);
    ASSERT_TRUE(retry.ok());
    EXPECT_THAT(retry->missing(), IsEmpty());
  }
  EXPECT_TRUE(store.Use("me", "d").ok());  // a retry that fails takes nothing away
  EXPECT_REASON(store.BeginResult("me", "d", Rows(5), absl::ZeroDuration(), -1).status(),
                kMatrixExists);
}

TEST_F(MatrixStoreTest, AResultDoesNotGoIntoWhatIsWrittenByRows) {
  ASSERT_TRUE(store.Create("me", "x", Rows(4), absl::ZeroDuration()).ok());
  EXPECT_REASON(store.BeginResult("me", "x", Rows(4), absl::ZeroDuration(), -1).status(),
                kMatrixExists);
}

TEST_F(MatrixStoreTest, ADeletedResultIsNotSealed) {
  absl::StatusOr<MatrixWrite> result =
      store.BeginResult("me", "d", Rows(4), absl::ZeroDuration(), -1);
  ASSERT_TRUE(store.Delete("me", "d").ok());
  EXPECT_EQ(alive, 1);  // the product still writes there
  EXPECT_REASON(result->Commit().status(), kMatrixNotFound);
}

TEST(MatrixStoreDevicesTest, TakesTheDeviceWithTheMostRoomAndNoneThatIsLost) {
  FakeClock clock;
  std::atomic<int> alive{0};
  MatrixStore store(
      {.device_bytes = {1000, 1000}, .quota_bytes = 10'000, .matrices = 100},
      [&](int device, const MatrixSpec& spec) -> absl::StatusOr<std::unique_ptr<DeviceMatrix>> {
        return std::make_unique<FakeMatrix>(device, spec, alive);
      },
      clock);
  const auto create = [&](const char* name, int64_t bytes) {
    return store.Create("me", name, {DType::kF32, bytes / 4, 1}, absl::ZeroDuration());
  };
  EXPECT_EQ(create("a", 600)->device, 0);
  EXPECT_EQ(create("b", 500)->device, 1);
  EXPECT_EQ(create("c", 200)->device, 1);
  EXPECT_EQ(create("d", 400)->device, 0);
  EXPECT_REASON(create("e", 400).status(), kMemoryFull);
  EXPECT_EQ(store.BeginResult("me", "f", {DType::kF32, 10, 1}, absl::ZeroDuration(), 1)
                ->matrix()
                ->device(),
            1);

  absl::StatusOr<MatrixWrite> write = store.BeginWrite("me", "d", 0, 0);
  store.DropDevice(0);
  EXPECT_REASON(store.Get("me", "a").status(), kMatrixNotFound);
  EXPECT_REASON(write->Commit().status(), kMatrixNotFound);
  EXPECT_TRUE(store.Get("me", "b").ok());
  EXPECT_EQ(create("a", 200)->device, 1);
  EXPECT_REASON(store.BeginResult("me", "g", {DType::kF32, 1, 1}, absl::ZeroDuration(), 0).status(),
                kDeviceLost);
}

TEST_F(MatrixStoreTest, ManyThreadsWriteUseAndDelete) {
  constexpr int kThreads = 6;
  constexpr int64_t kRows = 64;
  std::atomic<int> sealed_uses{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round < 400; ++round) {
        const std::string name = absl::StrCat("m", round % 4);
        (void)store.Create("me", name, Rows(kRows), absl::Seconds(5));
        const auto begin = static_cast<int64_t>(random() % kRows);
        const auto count = 1 + static_cast<int64_t>(random()) % (kRows - begin);
        for (const auto& [from, rows] : {std::pair(begin, count), std::pair(int64_t{0}, kRows)}) {
          absl::StatusOr<MatrixWrite> write = store.BeginWrite("me", name, from, rows);
          if (write.ok() && random() % 8 != 0) (void)write->Commit();
        }
        if (const auto used = store.Use("me", name); used.ok()) ++sealed_uses;
        absl::StatusOr<MatrixWrite> result = store.BeginResult(
            "me", absl::StrCat("r", random() % 3), Rows(3), absl::ZeroDuration(), 0);
        if (result.ok() && random() % 2 == 0) (void)result->Commit();
        if (random() % 16 == 0) (void)store.Delete("me", name);
        if (random() % 16 == 0) clock.Advance(absl::Seconds(1));
        (void)store.List("me", "", 2);
        (void)store.used_bytes();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(sealed_uses, 0);
  clock.Advance(absl::Hours(1));
  EXPECT_EQ(store.matrices(), 0u);
  EXPECT_EQ(store.used_bytes(), 0u);
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace gemm
