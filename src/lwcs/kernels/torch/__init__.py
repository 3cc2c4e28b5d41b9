"""The kernels for rows on a device, in torch, and in Triton where it is faster."""
