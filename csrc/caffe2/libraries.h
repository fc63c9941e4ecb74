// Products and convolutions by the library that Caffe2 comes with.
#pragma once

namespace tc_caffe2 {

/// Offers ATen's to the core, once a process.
void use_libraries();

}  // namespace tc_caffe2
