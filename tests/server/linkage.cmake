# cmake -DBINARY=FILE -P linkage.cmake: fails if FILE needs libcuda, cuBLAS or a shared cudart.
execute_process(COMMAND ldd ${BINARY} OUTPUT_VARIABLE libraries RESULT_VARIABLE result)
if(NOT result EQUAL 0 OR NOT libraries MATCHES "libgrpc")
  message(FATAL_ERROR "ldd ${BINARY} did not work: ${libraries}")
endif()
if(libraries MATCHES "libcuda|libcublas|libcudart")
  message(FATAL_ERROR "${BINARY} links ${CMAKE_MATCH_0}:\n${libraries}")
endif()
