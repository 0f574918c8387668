//! The documentation is in step with the binary.

use super::{run, run_with_input};

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_reference_is_in_step() {
    let says = run(&["reference"]).out;
    assert_eq!(
        page("configuration-reference.md"),
        says,
        "write it anew: cargo run -p tollgate -- reference > docs/configuration-reference.md"
    );
}

/// Every example that is a whole file; parts of files have no `routes`.
#[test]
fn examples_pass_check() {
    let page = page("configuration.md");
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut whole = 0;
    for block in blocks.filter(|block| block.starts_with("listen:")) {
        let ran = run_with_input(&["check", "-"], block);
        assert_eq!(ran.code, Some(0), "{block}\n{ran:?}");
        assert!(ran.err.is_empty(), "{block}\n{ran:?}");
        whole += 1;
    }
    assert!(whole >= 3, "{whole} whole files");
}

#[test]
fn every_command_has_its_section() {
    let page = page("cli.md");
    for command in ["run", "check", "explain", "demo", "schema", "reference", "completions", "man"] {
        assert!(page.contains(&format!("\n## `tollgate {command}")), "{command}");
    }
}
