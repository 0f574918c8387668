//! Tests the real program, started as users start it, on systems and studies that each test describes.

mod agents;
mod answers;
mod bad_input;
mod bench;
mod cluster;
mod cores;
mod external;
mod fooled;
mod load_protocols;
mod load_replay;
mod load_url;
mod parts;
mod runtime_route;
mod stopped;
mod systems;
mod trouble;
mod whole;
mod workers;
