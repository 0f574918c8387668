//! Runs one plan, given as JSON on standard input, and prints the result as JSON.

use std::io::{self, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plan: tollgate_lab_load::Plan = serde_json::from_reader(io::stdin())?;
    let result = tollgate_lab_load::run(&plan)?;
    serde_json::to_writer(io::stdout(), &result)?;
    Ok(writeln!(io::stdout())?)
}
