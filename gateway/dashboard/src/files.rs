//! The embedded files of the dashboard.

/// An embedded file.
#[derive(Debug)]
pub(crate) struct EmbeddedFile {
    /// Path under `/dashboard/`.
    pub(crate) name: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($($folder:literal: $($name:literal $content_type:ident),+;)+) => {
        &[$($(EmbeddedFile {
            name: page_name(concat!($folder, $name)),
            content_type: $content_type,
            content: include_str!(concat!("../", $folder, $name)),
        },)+)+]
    };
}

/// Returns the path under `/dashboard/`: without `page/`, but with `vendor/`.
const fn page_name(path: &'static str) -> &'static str {
    match path.as_bytes() {
        [b'p', b'a', b'g', b'e', b'/', ..] => path.split_at("page/".len()).1,
        _ => path,
    }
}

/// All embedded files.
pub(crate) const FILES: &[EmbeddedFile] = files! {
    "page/":
        "index.html" HTML, "style.css" CSS, "edit.css" CSS, "pages.css" CSS, "icon.svg" SVG,
        "api.js" SCRIPT, "app.js" SCRIPT, "chart.js" SCRIPT, "code-mirror.js" SCRIPT, "completion.js" SCRIPT,
        "diff.js" SCRIPT, "editor.js" SCRIPT, "forms.js" SCRIPT, "format.js" SCRIPT, "history.js" SCRIPT,
        "listing.js" SCRIPT, "live.js" SCRIPT, "parts.js" SCRIPT, "pointer.js" SCRIPT, "problems.js" SCRIPT,
        "proposal.js" SCRIPT,

        "resources.js" SCRIPT, "store.js" SCRIPT, "targets.js" SCRIPT, "text.js" SCRIPT, "token.js" SCRIPT,
        "token-dialog.js" SCRIPT, "weights.js" SCRIPT, "words.js" SCRIPT, "yaml.js" SCRIPT,
        "views/cache.js" SCRIPT, "views/capacity.js" SCRIPT, "views/changes.js" SCRIPT, "views/explain.js" SCRIPT,
        "views/listeners.js" SCRIPT, "views/overview.js" SCRIPT, "views/plain.js" SCRIPT, "views/requests.js" SCRIPT,
        "views/resource.js" SCRIPT, "views/routes.js" SCRIPT, "views/upstreams.js" SCRIPT,
        "words/cache.js" SCRIPT, "words/change.js" SCRIPT, "words/explain.js" SCRIPT, "words/frame.js" SCRIPT, "words/live.js" SCRIPT,
        "words/pages.js" SCRIPT;
    "vendor/":
        "uPlot.iife.min.js" SCRIPT, "uPlot.min.css" CSS, "preact.mjs" SCRIPT, "htm.module.js" SCRIPT,
        "codemirror.js" SCRIPT, "codemirror.css" CSS, "show-hint.js" SCRIPT, "show-hint.css" CSS, "yaml.js" SCRIPT;
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use aws_lc_rs::digest::{SHA256, digest};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    }

    /// Returns the names of all files under a folder, recursively.
    fn names(of: &Path, prefix: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for entry in fs::read_dir(of).unwrap().map(Result::unwrap) {
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            match entry.file_type().unwrap().is_dir() {
                true => all.extend(names(&entry.path(), &format!("{name}/"))),
                false => drop(all.insert(name)),
            }
        }
        all
    }

    #[test]
    fn every_file_of_the_page_is_served() {
        let served = FILES.iter().map(|file| file.name.to_owned());
        let (vendor, page): (BTreeSet<_>, BTreeSet<_>) = served.partition(|name| name.starts_with("vendor/"));
        assert_eq!(page, names(&folder("page"), ""));
        let present = names(&folder("vendor"), "vendor/");
        let others = |name: &&String| name.ends_with(".LICENSE") || name.ends_with("README.md");
        assert_eq!(vendor, present.iter().filter(|name| !others(name)).cloned().collect());
    }

    #[test]
    fn imported_modules_exist() {
        for file in FILES.iter().filter(|file| file.name.ends_with("js") && !file.name.contains("vendor")) {
            for line in file.content.lines().filter(|line| line.starts_with("import")) {
                let path = line.split('\'').nth(1).expect("a path in quotes");
                let above = file.name.contains('/');
                let name = match path.strip_prefix("../") {
                    Some(name) if above => name.to_owned(),
                    _ if above => format!("views/{}", path.trim_start_matches("./")),
                    _ => path.trim_start_matches("./").to_owned(),
                };
                assert!(FILES.iter().any(|other| other.name == name), "{}: {line}", file.name);
            }
        }
    }

    /// Every text key that the page uses exists in both languages, and the page uses every key.
    #[test]
    fn every_text_is_there_and_asked_for() {
        let scripts = FILES.iter().filter(|file| file.name.ends_with(".js") && !file.name.contains("vendor"));
        let (words, page): (Vec<&EmbeddedFile>, Vec<&EmbeddedFile>) =
            scripts.partition(|file| file.name.starts_with("words/"));
        let entries = words.iter().flat_map(|file| file.content.split("\n  '").skip(1));
        let entries: Vec<(&str, &str)> =
            entries.map(|entry| entry.split_once("': [").expect("a key and texts")).collect();
        let keys: BTreeSet<&str> = entries.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys.len(), entries.len(), "a key is there twice");
        for (key, texts) in &entries {
            let quotes = texts.matches('\'').count();
            assert!(quotes == 4, "{key} has not two texts: {texts}");
        }
        // `t('key'` uses one key; `t(`prefix.${...}`)` uses all keys with that prefix.
        let used = |begin: &str, end: char| -> BTreeSet<&str> {
            let name = |before: &str| before.ends_with(|last: char| last.is_alphanumeric() || last == '.');
            let found = page.iter().flat_map(|file| {
                let all = file.content.match_indices(begin);
                all.filter(|(at, _)| !name(&file.content[..*at]))
                    .map(|(at, _)| &file.content[at + begin.len()..])
            });
            found.filter_map(|rest| rest.split(end).next()).collect()
        };
        let whole = used("t('", '\'');
        let prefixes = used("t(`", '$');
        let missing: Vec<_> = whole.difference(&keys).collect();
        assert!(missing.is_empty(), "asked for, and not there: {missing:?}");
        for prefix in &prefixes {
            assert!(keys.iter().any(|key| key.starts_with(prefix)), "nothing begins with {prefix}");
        }
        let unused = keys
            .iter()
            .filter(|key| !whole.contains(*key) && !prefixes.iter().any(|prefix| key.starts_with(prefix)));
        assert_eq!(unused.collect::<Vec<_>>(), Vec::<&&str>::new(), "nobody asks for them");
    }

    #[test]
    fn libraries_are_as_their_authors_released_them() {
        let readme = fs::read_to_string(folder("vendor/README.md")).unwrap();
        let rows: Vec<(&str, &str)> = readme
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| {
                let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
                (cells[1], cells[cells.len() - 2])
            })
            .collect();
        let described: BTreeSet<String> = rows.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut present = names(&folder("vendor"), "");
        present.remove("README.md");
        assert_eq!(described, present);
        for (name, expected) in rows {
            let sum = digest(&SHA256, &fs::read(folder("vendor").join(name)).unwrap());
            let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(sum, expected, "{name} is not the file that README.md names");
        }
    }
}
