"""The engine room: kernels for the CPU."""
