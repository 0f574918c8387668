//! The gateway's binary.
fn main() {}
