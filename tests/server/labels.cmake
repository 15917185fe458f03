# cmake -DCTEST=FILE -DBUILD=FOLDER -P labels.cmake: fails if the tests for the thread sanitizer are not found
# by their label.
execute_process(COMMAND ${CTEST} --test-dir ${BUILD} -N -L "^unit-tsan$" OUTPUT_VARIABLE tests)
foreach(suite EngineTest JobQueueTest MatrixStoreTest AdmissionTest ExecutorTest)
  if(NOT tests MATCHES "${suite}\\.")
    message(FATAL_ERROR "no ${suite} has the label unit-tsan:\n${tests}")
  endif()
endforeach()
