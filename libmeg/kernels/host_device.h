#pragma once

/// Marks functions that CPU and GPU both compile.
#ifdef __CUDACC__
#define MEG_HOST_DEVICE __host__ __device__
#else
#define MEG_HOST_DEVICE
#endif
