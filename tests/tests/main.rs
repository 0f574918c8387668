//! End-to-end tests through the real binary, by theme. `docs` of each module say what it holds.

mod harness;
