# Imports LibTorch from TORCH_DIR: the torch Python package or an unpacked libtorch, for CPU or CUDA alike.
#
# Defines LibTorch::torch (torch_cpu and c10 with their headers) and LibTorch_VERSION. TorchConfig, which comes
# with LibTorch, is not used: that of a CUDA wheel demands a CUDA toolkit which someone on a CPU does not have.

set(LibTorch_MINIMUM 2.6)

# pip builds in an environment of its own, where torch cannot be imported; the installed one is still where Python
# keeps its packages.
if(NOT TORCH_DIR AND SACCADE_OPERATORS_ONLY)
  execute_process(COMMAND "${Python3_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_path('platlib'))"
                  OUTPUT_VARIABLE packages OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(NOT EXISTS "${packages}/torch")
    message(FATAL_ERROR "there is no torch in ${packages}: install it first (pip install torch), or set TORCH_DIR")
  endif()
  set(TORCH_DIR "${packages}/torch")
endif()
if(NOT TORCH_DIR)
  message(FATAL_ERROR "TORCH_DIR is not set. Run scripts/setup and pass -DTORCH_DIR=$(cat .setup/torch_dir); "
                      "`make build` does both.")
endif()
foreach(file lib/libtorch_cpu.so lib/libc10.so include/ATen/ATen.h include/torch/csrc/api/include/torch/torch.h)
  if(NOT EXISTS "${TORCH_DIR}/${file}")
    message(FATAL_ERROR "TORCH_DIR=${TORCH_DIR} is not a LibTorch: it has no ${file}")
  endif()
endforeach()

if(EXISTS "${TORCH_DIR}/version.py")
  file(STRINGS "${TORCH_DIR}/version.py" version_line REGEX "^__version__")
elseif(EXISTS "${TORCH_DIR}/build-version")
  file(STRINGS "${TORCH_DIR}/build-version" version_line LIMIT_COUNT 1)
endif()
if(NOT version_line MATCHES "([0-9]+\\.[0-9]+(\\.[0-9]+)?)")
  message(FATAL_ERROR "cannot read the version of the LibTorch in ${TORCH_DIR} (version.py or build-version)")
endif()
set(LibTorch_VERSION ${CMAKE_MATCH_1})
if(LibTorch_VERSION VERSION_LESS LibTorch_MINIMUM)
  message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} in ${TORCH_DIR} is too old: "
                      "at least ${LibTorch_MINIMUM} is needed")
endif()

# A function that takes a std::string shows in its name which C++ library interface LibTorch was built for.
file(STRINGS "${TORCH_DIR}/lib/libc10.so" new_abi REGEX "_ZN3c105Error.*NSt7__cxx1112basic_string" LIMIT_COUNT 1)
if(NOT new_abi)
  message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} in ${TORCH_DIR} was built for the old C++ library interface "
                      "(_GLIBCXX_USE_CXX11_ABI=0). Use a build for the new one, such as any wheel since 2.7.")
endif()

# LibTorch's include directory also holds copies of other libraries (fmt among them) that would shadow those
# our own code uses, so only LibTorch's own folders are put on the include path.
set(include_directory "${PROJECT_BINARY_DIR}/generated/libtorch")
file(MAKE_DIRECTORY "${include_directory}")
foreach(folder ATen c10 caffe2 torch)
  file(CREATE_LINK "${TORCH_DIR}/include/${folder}" "${include_directory}/${folder}" SYMBOLIC)
endforeach()

foreach(library c10 torch_cpu)
  add_library(LibTorch::${library} SHARED IMPORTED)
  set_target_properties(
    LibTorch::${library}
    PROPERTIES IMPORTED_LOCATION "${TORCH_DIR}/lib/lib${library}.so"
               INTERFACE_INCLUDE_DIRECTORIES "${include_directory};${include_directory}/torch/csrc/api/include")
endforeach()
add_library(LibTorch::torch INTERFACE IMPORTED)
target_link_libraries(LibTorch::torch INTERFACE LibTorch::torch_cpu LibTorch::c10)

# A CUDA wheel's libraries name others that are found only when the program starts.
target_link_options(LibTorch::torch INTERFACE LINKER:--allow-shlib-undefined)

# Two OpenMP runtimes in one process mean two thread pools that fight over the cores. When LibTorch brings its
# own libgomp, LibTorch::openmp compiles with OpenMP but links that one; otherwise both use the system's.
file(GLOB bundled_gomp "${TORCH_DIR}/lib/libgomp*.so*" "${TORCH_DIR}/../torch.libs/libgomp*.so*")
add_library(LibTorch::openmp INTERFACE IMPORTED)
target_compile_options(LibTorch::openmp INTERFACE -fopenmp)
if(bundled_gomp)
  list(GET bundled_gomp 0 bundled_gomp)
  target_link_libraries(LibTorch::openmp INTERFACE "${bundled_gomp}")
else()
  target_link_libraries(LibTorch::openmp INTERFACE gomp)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS TORCH_DIR VERSION_VAR LibTorch_VERSION)
