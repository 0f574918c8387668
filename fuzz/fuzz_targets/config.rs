//! The configuration's text: any text gives a configuration or an error, and each problem names a position
//! that exists and can be shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_config::{At, from_text};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let variables = |name: &str| (name == "SET").then(|| "10.0.0.1:8080".to_owned());
    tollgate_policy::register();
    let loaded = from_text("fuzz.yaml", text, &variables);

    assert_ne!(loaded.config.is_some(), loaded.problems.has_errors());
    // YAML ends a line at LF, CR or both.
    let lines = 1 + text.replace("\r\n", "\n").matches(['\n', '\r']).count();
    let is_there = |at: At| at.file == 0 && at.line as usize <= lines && (at.line == 0 || at.column >= 1);
    for problem in &loaded.problems {
        assert!(is_there(problem.at), "{problem:?}");
        assert!(problem.related.iter().all(|(at, _)| is_there(*at)), "{problem:?}");
        assert!(!problem.message.is_empty() && !problem.message.contains('\n'), "{problem:?}");
    }

    let shown = loaded.problems.render(false);
    assert_eq!(shown.is_empty(), loaded.problems.is_empty());
    // Foreign text must not move the cursor of the terminal that shows it, or change its colours.
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "a control character is shown");
});
