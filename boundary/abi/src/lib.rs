//! The CUDA driver API's vocabulary: result codes, attribute numbers, struct layouts, handles.
