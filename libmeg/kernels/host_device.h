#pragma once

/// Marks functions that are compiled for both CPU and GPU.
#ifdef __CUDACC__
#define MEG_HOST_DEVICE __host__ __device__
#else
#define MEG_HOST_DEVICE
#endif
