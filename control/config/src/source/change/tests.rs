//! Tests that a partial reread gives the same result as reading the whole file, after any change.

use std::path::PathBuf;

use proptest::prelude::*;

use crate::model::Config;
use crate::source::ConfigSource;
use crate::{Severity, load_with};

fn variables(name: &str) -> Option<String> {
    (name == "X").then(|| "10.0.0.9:80".to_owned())
}

/// A temporary file that is overwritten repeatedly.
struct TestFile {
    path: PathBuf,
}

impl TestFile {
    fn new() -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { path: std::env::temp_dir().join(format!("tollgate-source-{}-{number}", std::process::id())) }
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.path, text).expect("a temporary file");
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        // A leftover file is harmless.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Formats a configuration as text, with lines converted to the present ones.
fn shown(config: &Config, now: impl Fn(u32) -> u32) -> String {
    let text = format!("{config:#?}");
    let mut out = String::new();
    for line in text.lines() {
        match line
            .trim_start()
            .strip_prefix("line: ")
            .and_then(|rest| rest.trim_end_matches(',').parse().ok())
        {
            Some(read) => out.push_str(&format!("line: {}", now(read))),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// Rereads the file through the source and as a whole, and compares the results. Returns how many routes the
/// source read.
fn compare(source: &mut ConfigSource) -> usize {
    let whole = load_with(source.path(), &variables);
    let reading = source.load_with(&variables);
    assert_eq!(reading.problems.render(false), whole.problems.render(false));
    assert_eq!(reading.config.is_some(), whole.config.is_some());
    let routes_read = reading.routes_read;
    if let (Some(config), Some(whole)) = (reading.config, whole.config) {
        let lines = reading.problems.lines();
        assert_eq!(
            shown(&config, |read| lines.current_line(read).expect("a line that is there")),
            shown(&whole, |line| line)
        );
    }
    routes_read
}

/// Writes the texts in turn and compares after each. Returns how many routes were read for each text.
fn play(texts: &[&str]) -> Vec<usize> {
    let file = TestFile::new();
    let mut source = ConfigSource::new(&file.path);
    let play = |text: &&str| {
        file.write(text);
        compare(&mut source)
    };
    texts.iter().map(play).collect()
}

const HEAD: &str = "listen: 127.0.0.1:8080\nupstreams:\n  users: [\"10.0.0.1:80\"]\nroutes:\n";
const ROUTES: &str = "  - match: /a/*\n    to: users\n  # about b\n  - name: b\n    match: [/b, /b/*]\n    to: users\n\n  - match: /c\n    respond: 204\n    retry: off\n";
const TAIL: &str = "timeouts:\n  total: 5s\naccess_log: stdout\n";

#[test]
fn only_changed_items_are_read() {
    let text = |routes: &str| format!("{HEAD}{routes}{TAIL}");
    let first = text(ROUTES);
    let changed = text(&ROUTES.replace("/a/*", "/a2/*"));
    let longer = text(&ROUTES.replace("to: users\n\n", "to: users\n    timeouts:\n      connect: 1s\n\n\n"));
    let added = text(&format!("{ROUTES}  - match: /d\n    to: users\n"));
    let inserted = text(&ROUTES.replace("  - name: b", "  - match: /new\n    to: users\n  - name: b"));
    let removed = text(&ROUTES.replace("  - match: /c\n    respond: 204\n    retry: off\n", ""));
    let texts = [&first, &first, &changed, &longer, &added, &inserted, &first, &removed, &first];
    let texts: Vec<&str> = texts.iter().map(|text| text.as_str()).collect();
    let routes_read = play(&texts);
    // The neighbour of an inserted item is read too, because an item ends where the next one starts.
    assert_eq!(routes_read, [4, 0, 1, 3, 4, 4, 2, 2, 3], "of 4 or 5 routes");
}

#[test]
fn an_item_at_either_end_of_the_file() {
    let alone = |routes: &str| format!("listen: :80\nupstreams: {{users: [\"h:1\"]}}\nroutes:\n{routes}");
    let first = alone(ROUTES);
    let added = alone(&format!("{ROUTES}  - match: /d\n    to: users"));
    let comment = alone(&format!("{ROUTES}  - match: /d\n    to: users\n# the end\n"));
    let second = alone(&format!("{ROUTES}  - match: /d\n    to: users\n---\na: 1\n"));
    let top = alone(&format!("  - match: /0\n    to: users\n{ROUTES}"));
    let empty = alone(&format!("{ROUTES}  - match: /d\n    to:"));
    let routes_read = play(&[&first, &added, &comment, &second, &first, &empty, &first, &top]);
    assert_eq!(routes_read, [4, 2, 1, 0, 4, 0, 4, 2]);
}

#[test]
fn a_change_outside_items_has_everything_read() {
    let text = |routes: &str| format!("{HEAD}{routes}{TAIL}");
    let first = text(ROUTES);
    for odd in [
        text(&ROUTES.replace("/a/*", "\"/a/*")),
        text(&ROUTES.replace("to: users\n  #", "to: users\n    name: &x a\n  #")),
        text(&ROUTES.replace("to: users\n  #", "to: !!str users\n  #")),
        text(&ROUTES.replace("to: users\n  #", "to: [users,\n  #")),
        text(&ROUTES.replace("/a/*", "/a/*\r")),
        text(&ROUTES.replace("  - match: /a/*", "  -\n    match: /a/*")),
        text(&ROUTES.replace("to: users\n\n", "to: |\n      users\n\n")),
        text(&ROUTES.replace("  # about b", "more: 1")),
        text(&ROUTES.replace("/b, /b/*", "/b, /b/*, /b")),
        text(&ROUTES.replace("- match: /c", "- name: b\n    match: /c")),
        text(&ROUTES.replace("to: users\n\n", "to: nobody\n\n")),
        text(&ROUTES.replace("to: users\n\n", "to: ${Y}\n\n")),
        text(&ROUTES.replace("to: users\n\n", "to: ${X}\n\n")),
        text(&ROUTES.replace("retry: off", "retry: {per_try: 9s}\n    extra: 1")),
        text(&ROUTES.replace("retry: off", "retry: {per_try: 9s}")),
        HEAD.replace("routes:\n", "routes: []\n") + TAIL,
        text(&ROUTES.replace("  - ", "- ")),
        format!("---\n{first}...\n"),
    ] {
        play(&[&first, &odd, &first, &odd, &odd.replace("/c", "/cc")]);
    }
}

/// Fragments that may damage a list of routes.
const LINE_RUNS_MAX: &[&str] = &[
    "",
    " ",
    "  ",
    "\n",
    "\n\n",
    "- ",
    "  - ",
    "\n  - ",
    "\n  - match: /n\n    to: users\n",
    "  - match: /m\n    respond: 200\n",
    "    name: b\n",
    "    name: ${X}\n",
    "    retry: {per_try: 9s}\n",
    "    priority: low\n",
    "    buffer: on\n",
    ":",
    ": ",
    "#",
    "# c\n",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\"",
    "'",
    "|\n",
    "      text\n",
    "&a ",
    "*a",
    "<<: *a",
    "!!str ",
    "---\n",
    "...\n",
    "x-y: 1\n",
    "routes:\n",
    "\t",
    "\r",
    "\r\n",
    "/x",
    "*",
    "users",
    "nobody",
    "é",
    "\u{feff}",
    "match",
    "to",
    "~",
    "null",
    "? ",
    "0",
];

/// An edit: position, number of characters to remove, text to insert.
type TestEdit = (prop::sample::Index, usize, &'static str);

fn edit() -> impl Strategy<Value = TestEdit> {
    (
        any::<prop::sample::Index>(),
        prop_oneof![Just(0_usize), 0..6_usize, 0..60_usize],
        prop::sample::select(LINE_RUNS_MAX),
    )
}

fn edited(text: &str, edits: &[TestEdit]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, remove, insert) in edits {
        let start = at.index(chars.len() + 1);
        let end = (start + remove).min(chars.len());
        chars.splice(start..end, insert.chars());
    }
    chars.into_iter().collect()
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_edit_is_read_as_the_whole_is(
        tail in prop::sample::select(&["", TAIL, "x-a: [1,\n 2]\n", "# the end"][..]),
        indent in any::<bool>(),
        rounds in prop::collection::vec(prop::collection::vec(edit(), 1..3), 1..6),
    ) {
        let routes = if indent { ROUTES.to_owned() } else { ROUTES.replace("\n  ", "\n").replacen("  - ", "- ", 1) };
        let mut text = format!("{HEAD}{routes}{tail}");
        let file = TestFile::new();
        let mut source = ConfigSource::new(&file.path);
        file.write(&text);
        compare(&mut source);
        for edits in rounds {
            let next = edited(&text, &edits);
            file.write(&next);
            compare(&mut source);
            // A text with errors is rarely a useful base for further edits.
            if load_with(&file.path, &variables).problems.count(Severity::Error) == 0 {
                text = next;
            }
        }
    }
}

/// The items after the key belong to that other key.
#[test]
fn a_key_among_the_items_is_seen() {
    let text =
        |key: &str| format!("listen: :80\nroutes:\n- match: a/*\n  to: :81\n{key}- match: b/*\n  to: :82\n");
    let file = TestFile::new();
    let mut source = ConfigSource::new(&file.path);
    file.write(&text(""));
    compare(&mut source);
    for key in ["routes:\n", "upstreams:\n", "x-other:\n", "# routes:\n"] {
        file.write(&text(key));
        compare(&mut source);
    }
}

#[test]
fn one_of_ten_thousand_routes_is_read() {
    let text = |changed: usize| {
        let routes = (0..10_000).map(|number| {
            let path = if number == changed { "new" } else { "a" };
            format!("  - match: host{number}.example.com/{path}/*\n    to: [10.0.0.1:80, 10.0.0.2:80]\n")
        });
        format!("listen: :80\nroutes:\n{}", routes.collect::<String>())
    };
    let file = TestFile::new();
    let mut source = ConfigSource::new(&file.path);
    let mut routes_read = |changed| {
        file.write(&text(changed));
        let reading = source.load_with(&variables);
        assert!(reading.config.is_some_and(|config| config.routes.len() == 10_000));
        reading.routes_read
    };
    assert_eq!(
        [routes_read(10_000), routes_read(5_000), routes_read(5_001), routes_read(9_999)],
        [10_000, 1, 2, 4_999]
    );
}
