//! The documentation agrees with the binary.

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
        "write it again: cargo run -p tollgate -- reference > docs/configuration-reference.md"
    );
}

/// Checks every example that is a whole file. Partial examples have no `routes`.
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

/// Checks every block of these pages. A partial example is completed to a whole file; a list is the content
/// of a file of endpoints.
#[test]
fn upstream_examples_pass_check() {
    let pages = page("upstreams.md") + &page("overload.md");
    let blocks: Vec<&str> =
        pages.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 16, "{} blocks", blocks.len());
    for block in blocks {
        let mut file = String::from("listen: 127.0.0.1:8080\n");
        if block.starts_with("- ") {
            let items: String = block.lines().map(|line| format!("      {line}\n")).collect();
            file.push_str(&format!("upstreams:\n  listed:\n    endpoints:\n{items}"));
        } else {
            file.push_str(block);
        }
        if !block.contains("\nroutes:") {
            file.push_str("routes: [{ respond: 404 }]\n");
        }
        let ran = run_with_input(&["check", "-"], &file);
        assert_eq!(ran.code, Some(0), "{file}\n{ran:?}");
        assert!(ran.err.is_empty(), "{file}\n{ran:?}");
    }
}

/// Every key of an upstream appears in an example, or at least in the text.
#[test]
fn every_key_of_an_upstream_has_an_example() {
    let reference = run(&["reference"]).out;
    let page = page("upstreams.md");
    for section in [
        "upstream",
        "balance",
        "hash_by",
        "sticky",
        "upstream_limits",
        "queue",
        "breaker",
        "retry",
        "hedge",
        "health",
        "outlier",
        "discover",
        "adaptive",
        "overload",
        "endpoint",
        "pool",
    ] {
        let table = reference.split(&format!("\n## {section}\n")).nth(1).expect("the section");
        let table = table.split("\n## ").next().unwrap_or_default();
        let keys = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        for key in keys {
            let shown = page.contains(&format!("`{key}`"))
                || page
                    .match_indices(&format!("{key}:"))
                    .any(|(at, _)| page[..at].ends_with([' ', '`', '{']));
            assert!(shown, "{section}.{key}");
        }
    }
}

#[test]
fn every_command_has_its_section() {
    let page = page("cli.md");
    for command in
        ["run", "check", "explain", "demo", "top", "trace", "schema", "reference", "completions", "man"]
    {
        assert!(page.contains(&format!("\n## `tollgate {command}")), "{command}");
    }
}
