//! Tests the real program, started as users start it, on systems and studies that each test describes.

mod answers;
mod bad_input;
mod bench;
mod cores;
mod parts;
mod runtime_route;
mod stopped;
mod systems;
mod trouble;
mod whole;
