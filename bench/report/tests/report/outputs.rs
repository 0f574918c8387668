use crate::canned;
use std::path::{Path, PathBuf};
use tollgate_lab_report::{html, markdown, terminal};

/// Where outputs are left for people to look at.
fn left(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The canned file is kept beside the tests for people to look at; it must be what its generator makes. Reports are
/// compared, not bytes: the last digit of an exponential depends on the C library.
#[test]
fn the_kept_file_is_what_its_seed_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/canned.jsonl");
    if std::env::var_os("REWRITE_CANNED").is_some() {
        std::fs::write(&path, canned::bytes()).unwrap();
    }
    let kept = tollgate_lab_record::read(&std::fs::read(&path).unwrap()[..]).unwrap();
    let made = canned::results();
    assert_eq!(
        markdown(&kept),
        markdown(&made),
        "{path:?} is old: run this test again with REWRITE_CANNED=1"
    );
    assert_eq!(kept.trials.len(), made.trials.len());
    std::fs::write(left("canned.md"), markdown(&kept)).unwrap();
    std::fs::write(left("canned.txt"), terminal(&kept, 120, false)).unwrap();
    std::fs::write(left("canned.html"), html(&kept)).unwrap();
}
