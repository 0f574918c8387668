//! End-to-end tests through the real binary.
