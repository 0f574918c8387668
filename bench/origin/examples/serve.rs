//! Runs an origin until a signal ends the process. The settings are JSON on standard input, such as
//! `{"listen": "127.0.0.1:8000", "control": "127.0.0.1:8001"}`.

use std::io;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings: tollgate_lab_origin::Settings = serde_json::from_reader(io::stdin())?;
    match tollgate_lab_origin::serve(&settings)? {}
}
