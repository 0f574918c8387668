//! Facts about this build: commit, profile, compiler. `tollgate --version`, `GET /status` and `GET /api/v1`
//! print them. `build.rs` collects them.

use std::sync::LazyLock;

use tollgate_policy::{Installed, Plugins};

/// The length of a commit in `tollgate -V`.
const SHORT_COMMIT_LENGTH: usize = 12;
/// The options of a build besides its target: the allocator, and the library for TLS.
const FEATURES: &str = if cfg!(without_jemalloc) { "aws-lc" } else { "jemalloc, aws-lc" };

const VERSION: &str = env!("CARGO_PKG_VERSION");
const COMMIT: &str = env!("TOLLGATE_BUILD_COMMIT");
const PROFILE: &str = env!("TOLLGATE_BUILD_PROFILE");
const GUIDED: &str = env!("TOLLGATE_BUILD_GUIDED");
const RUSTC: &str = env!("TOLLGATE_BUILD_RUSTC");
const TARGET: &str = env!("TOLLGATE_BUILD_TARGET");

/// Returns the commit that the program was built from; `None` for a `dev` build, and for one from a source
/// archive without `TOLLGATE_COMMIT`.
pub fn commit() -> Option<&'static str> {
    (!COMMIT.is_empty()).then_some(COMMIT)
}

/// Returns the version and the most important facts in one line, for `tollgate -V`.
pub fn short_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let commit = commit().map(|commit| commit.get(..SHORT_COMMIT_LENGTH).unwrap_or(commit));
        let guided = (GUIDED == "yes").then_some("pgo");
        let facts: Vec<&str> = [commit, Some(PROFILE), guided].into_iter().flatten().collect();
        format!("{VERSION} ({})", facts.join(", "))
    });
    &TEXT
}

/// Returns the version and all facts, one in each line, for `tollgate --version`. Call it after plugins
/// were installed.
pub fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let plugins: Vec<_> =
            Plugins::installed().all().iter().map(Installed::plugin).map(|plugin| plugin.name()).collect();
        let plugins = if plugins.is_empty() { "none".to_owned() } else { plugins.join(", ") };
        let commit = commit().unwrap_or("unknown");
        format!(
            "{VERSION}\ncommit: {commit}\nprofile: {PROFILE}\nprofile-guided: {GUIDED}\nrustc: {RUSTC}\n\
             target: {TARGET}\nfeatures: {FEATURES}\nplugins: {plugins}"
        )
    });
    &TEXT
}
