# find_package(gemmd) gives gemmd::client, a static library. The programs that link it need Abseil's
# headers, and the libraries of Abseil, protobuf and gRPC with which it was built.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(absl)
find_dependency(Protobuf)
find_dependency(gRPC CONFIG)
include("${CMAKE_CURRENT_LIST_DIR}/gemmdTargets.cmake")
