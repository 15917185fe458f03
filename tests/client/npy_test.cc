#include "client/cli/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "client/cli/npy_header.h"

namespace gemm::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class NpyTest : public ::testing::Test {
 protected:
  NpyTest() {
    std::string folder = ::testing::TempDir() + "/npy_test_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~NpyTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string Write(const std::string& bytes) const {
    std::ofstream(Path("x.npy"), std::ios::binary) << bytes;
    return Path("x.npy");
  }

  // The error that opening these bytes gives, which must name the file.
  std::string FaultOf(const std::string& bytes) const {
    const std::string path = Write(bytes);
    const absl::Status status = NpyArray::Open(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    std::string message(status.message());
    EXPECT_THAT(message, StartsWith(path + ": "));
    return message;
  }

  std::vector<std::string> FilesLeft() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

 private:
  std::string folder_;
};

// A file of that version whose dictionary is as given.
std::string File(const std::string& dictionary, const std::string& data, int version = 1) {
  std::string file = "\x93NUMPY";
  file.push_back(static_cast<char>(version));
  file.push_back(0);
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    file.push_back(static_cast<char>(dictionary.size() >> (8 * i)));
  }
  return file + dictionary + data;
}

std::string Dictionary(const std::string& descr, const std::string& order,
                       const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST_F(NpyTest, RoundTrip) {
  absl::StatusOr<NpyWriter> writer = NpyWriter::Create(Path("d.npy"), ElementType::kF64, {2, 1, 2});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_EQ(writer->elements<double>().size(), 4u);
  for (int i = 0; i < 4; ++i) writer->elements<double>()[i] = i + 0.5;
  EXPECT_FALSE(std::filesystem::exists(Path("d.npy")));
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_THAT(FilesLeft(), ElementsAre("d.npy"));

  const absl::StatusOr<NpyArray> array = NpyArray::Open(Path("d.npy"));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->element_type(), ElementType::kF64);
  EXPECT_FALSE(array->fortran_order());
  EXPECT_THAT(array->shape(), ElementsAre(2, 1, 2));
  EXPECT_THAT(array->elements<double>(), ElementsAre(0.5, 1.5, 2.5, 3.5));
}

TEST_F(NpyTest, HeaderIsTheOneNumPyWrites) {
  // np.save of np.zeros((3, 4), np.float32), version 1.0, bytes 0 to 127.
  std::string expected = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
  expected.resize(117, ' ');
  expected.push_back('\n');
  EXPECT_EQ(FormatNpyHeader(ElementType::kF32, {3, 4}),
            std::string("\x93NUMPY\x01\x00\x76\x00", 10) + expected);
  EXPECT_THAT(FormatNpyHeader(ElementType::kF32, {3}), HasSubstr("'shape': (3,), }"));
  EXPECT_THAT(FormatNpyHeader(ElementType::kF32, {}), HasSubstr("'shape': (), }"));
}

TEST_F(NpyTest, EveryVersionAndSpelling) {
  for (const int version : {1, 2, 3}) {
    const absl::StatusOr<NpyArray> array =
        NpyArray::Open(Write(File(Dictionary("'<f4'", "True", "(2, 1)"), Bytes({1, 2}), version)));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_TRUE(array->fortran_order());
    EXPECT_THAT(array->elements<float>(), ElementsAre(1, 2));
  }
  const std::string other = "{\"shape\":(1,2),\"fortran_order\":False,\"descr\":\"<f4\"}";
  EXPECT_TRUE(NpyArray::Open(Write(File(other, Bytes({1, 2})))).ok());
}

TEST_F(NpyTest, DataMayBeUnaligned) {
  std::string dictionary = Dictionary("'<f4'", "False", "(3, )");
  while ((10 + dictionary.size()) % 4 != 1) dictionary.push_back(' ');
  const absl::StatusOr<NpyArray> array = NpyArray::Open(Write(File(dictionary, Bytes({1, 2, 3}))));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->elements<float>(), ElementsAre(1, 2, 3));
}

TEST_F(NpyTest, EmptyArrays) {
  absl::StatusOr<NpyWriter> writer = NpyWriter::Create(Path("d.npy"), ElementType::kF32, {0, 7});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->Commit().ok());
  const absl::StatusOr<NpyArray> array = NpyArray::Open(Path("d.npy"));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->shape(), ElementsAre(0, 7));
  EXPECT_TRUE(array->elements<float>().empty());
  const std::string huge = "(0, 9223372036854775807, 9223372036854775807)";
  EXPECT_TRUE(NpyArray::Open(Write(File(Dictionary("'<f4'", "False", huge), ""))).ok());
}

TEST_F(NpyTest, Truncated) {
  const std::string whole = File(Dictionary("'<f4'", "False", "(2, 2)"), Bytes({1, 2, 3, 4}));
  EXPECT_THAT(FaultOf(""), HasSubstr("is empty"));
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_THAT(FaultOf(whole.substr(0, size)), HasSubstr("is truncated")) << size;
  }
  EXPECT_THAT(FaultOf(whole.substr(0, whole.size() - 1)),
              HasSubstr("needs 16 bytes of data, but 15 follow"));
  EXPECT_THAT(FaultOf(whole + "x"), HasSubstr("is too long"));
}

TEST_F(NpyTest, NotAnNpyFile) {
  EXPECT_THAT(FaultOf("PK\x03\x04 an .npz"), HasSubstr("not a .npy file"));
  std::string other = File(Dictionary("'<f4'", "False", "()"), Bytes({1}));
  other[6] = 4;
  EXPECT_THAT(FaultOf(other), HasSubstr("version 4.0"));
  other[6] = 1;
  other[7] = 1;
  EXPECT_THAT(FaultOf(other), HasSubstr("version 1.1"));
}

TEST_F(NpyTest, UnsupportedTypes) {
  const auto fault = [this](const std::string& descr) {
    return FaultOf(File(Dictionary(descr, "False", "(1,)"), "12345678"));
  };
  EXPECT_THAT(fault("'|O'"), HasSubstr("Python objects"));
  EXPECT_THAT(fault("'>f4'"), HasSubstr("big-endian"));
  EXPECT_THAT(fault("'>f8'"), HasSubstr("big-endian"));
  EXPECT_THAT(fault("'<f2'"), HasSubstr("\"<f2\"; supported are float32 (<f4) and float64 (<f8)"));
  EXPECT_THAT(fault("'<i4'"), HasSubstr("unsupported dtype"));
  EXPECT_THAT(fault("[('x', '<f4')]"), HasSubstr("structured dtype"));
}

TEST_F(NpyTest, MalformedDictionaries) {
  const auto fault = [this](const std::string& dictionary) {
    return FaultOf(File(dictionary, Bytes({1})));
  };
  EXPECT_THAT(fault("nonsense"), HasSubstr("not a dictionary"));
  EXPECT_THAT(fault("{"), HasSubstr("not a dictionary"));
  EXPECT_THAT(fault("{'descr'"), HasSubstr("not a dictionary"));
  EXPECT_THAT(fault("{'descr: "), HasSubstr("not a dictionary"));
  EXPECT_THAT(fault("{}"), HasSubstr("no descr"));
  EXPECT_THAT(fault("{'descr': '<f4'}"), HasSubstr("no fortran_order"));
  EXPECT_THAT(fault("{'descr': '<f4', 'fortran_order': False}"), HasSubstr("no shape"));
  EXPECT_THAT(fault("{'descr': '<f4' 'fortran_order': False}"), HasSubstr("not a dictionary"));
  EXPECT_THAT(fault("{'descr': '<f4', 'descr': '<f4'}"), HasSubstr("repeated key, \"descr\""));
  EXPECT_THAT(fault("{'color': 1}"), HasSubstr("unexpected or repeated key, \"color\""));
  EXPECT_THAT(fault(Dictionary("'<f4'", "0", "(1,)")), HasSubstr("neither True nor False"));
  EXPECT_THAT(fault(Dictionary("'<f4'", "False", "(1,)") + "x"), HasSubstr("goes on after"));
  for (const char* shape : {"1", "[1]", "(1)", "(-1,)", "(1.5,)", "(1, , 2)", "(a,)", "(1 2)"}) {
    EXPECT_THAT(fault(Dictionary("'<f4'", "False", shape)), HasSubstr("shape is not a tuple"))
        << shape;
  }
}

TEST_F(NpyTest, ShapesThatOverflow) {
  const auto fault = [this](const std::string& shape) {
    return FaultOf(File(Dictionary("'<f8'", "False", shape), Bytes({1})));
  };
  EXPECT_THAT(fault("(4294967296, 4294967296)"), HasSubstr("is too large"));
  EXPECT_THAT(fault("(9223372036854775807,)"), HasSubstr("is too large"));
  EXPECT_THAT(fault("(9223372036854775808,)"), HasSubstr("beyond 64 bits"));
  EXPECT_THAT(fault("(1000000000, 1000000)"), HasSubstr("is truncated"));
}

TEST_F(NpyTest, UnreadableFiles) {
  EXPECT_THAT(std::string(NpyArray::Open(Path("none.npy")).status().message()),
              HasSubstr("none.npy: cannot be read: No such file"));
  EXPECT_THAT(std::string(NpyArray::Open(Path("")).status().message()),
              HasSubstr("not a regular file"));
}

TEST_F(NpyTest, NothingIsLeftWithoutCommit) {
  std::ofstream(Path("d.npy")) << "old";
  {
    absl::StatusOr<NpyWriter> writer = NpyWriter::Create(Path("d.npy"), ElementType::kF32, {2});
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(FilesLeft().size(), 2u);
  }
  EXPECT_THAT(FilesLeft(), ElementsAre("d.npy"));
  EXPECT_EQ(std::filesystem::file_size(Path("d.npy")), 3u);
}

TEST_F(NpyTest, NothingIsLeftAfterASignal) {
  const std::string path = Path("d.npy");
  EXPECT_EXIT(
      {
        RemoveTemporaryFilesOnSignal();
        const absl::StatusOr<NpyWriter> writer = NpyWriter::Create(path, ElementType::kF32, {2});
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
  EXPECT_TRUE(FilesLeft().empty());
}

TEST_F(NpyTest, OutputsThatCannotBeWritten) {
  const auto fault = [](const std::string& path, const Shape& shape) {
    return std::string(NpyWriter::Create(path, ElementType::kF32, shape).status().message());
  };
  EXPECT_THAT(fault(Path("no/such/d.npy"), {1}), HasSubstr("No such file"));
  EXPECT_THAT(fault("/dev/null", {1}), HasSubstr("not a regular file"));
  EXPECT_THAT(fault(Path("."), {1}), HasSubstr("not a regular file"));
  EXPECT_THAT(fault(Path("d.npy"), {int64_t{1} << 40, int64_t{1} << 40}), HasSubstr("too large"));
  EXPECT_THAT(fault(Path("d.npy"), {int64_t{1} << 55}), HasSubstr("d.npy: cannot be written"));
  EXPECT_TRUE(FilesLeft().empty());
}

}  // namespace
}  // namespace gemm::cli
