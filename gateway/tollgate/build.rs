//! Passes facts about the build to `src/build_info.rs`, which prints them with `tollgate --version`.
//!
//! The commit comes from the checkout. A source archive has none, so its build sets
//! `TOLLGATE_COMMIT`. Builds with the profile `dev` leave it out: they would compile the crate again after
//! each commit, and usually contain changes that no commit has. Every fact that cannot be found is left
//! empty; the build never fails for it.

#![allow(clippy::print_stdout)]

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(without_jemalloc)");
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["TOLLGATE_COMMIT", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let profile = profile();
    let commit =
        commit_of_environment().or_else(|| if profile == "dev" { None } else { commit_of_checkout() });
    let is_guided = variable("CARGO_ENCODED_RUSTFLAGS").contains("profile-use=");
    let rustc = output(Command::new(variable("RUSTC")).arg("--version")).unwrap_or_default();
    for (name, value) in [
        ("COMMIT", commit.unwrap_or_default().as_str()),
        ("PROFILE", &profile),
        ("GUIDED", if is_guided { "yes" } else { "no" }),
        ("RUSTC", rustc.trim_start_matches("rustc ")),
        ("TARGET", &variable("TARGET")),
    ] {
        println!("cargo::rustc-env=TOLLGATE_BUILD_{name}={value}");
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Returns the name of Cargo's profile. Cargo's own variable `PROFILE` has only `release` or `debug`, but
/// the output folder, `target/[TRIPLE/]PROFILE/build/PACKAGE/out`, has the name.
fn profile() -> String {
    let out = variable("OUT_DIR");
    let directory = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let name = directory.map_or_else(|| variable("PROFILE"), |name| name.to_string_lossy().into_owned());
    if name == "debug" { "dev".to_owned() } else { name }
}

/// Returns `TOLLGATE_COMMIT`, unless it contains a character that no name of a revision has.
fn commit_of_environment() -> Option<String> {
    let commit = variable("TOLLGATE_COMMIT");
    let is_plain = commit.chars().all(|c| c.is_ascii_alphanumeric() || "-._+".contains(c));
    (is_plain && !commit.is_empty()).then_some(commit)
}

/// Returns the commit that is checked out, and has Cargo run this script again when it changes.
fn commit_of_checkout() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // A source archive may lie in the checkout of another project.
    if !root.join(".git").exists() {
        return None;
    }
    let git = |arguments: &[&str]| output(Command::new("git").arg("-C").arg(&root).args(arguments));
    // The log of HEAD grows with each commit, also where HEAD itself names a branch and stays as it is.
    for file in ["HEAD", "logs/HEAD"] {
        // In a worktree, `.git` is a file, and these files are elsewhere.
        let path = root.join(git(&["rev-parse", "--git-path", file])?);
        // A file that is missing would run the script at every build.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(&["rev-parse", "HEAD"])
}

/// Returns the first line that a program prints, or `None` if it cannot be run or fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.lines().next()?.to_owned())
}
