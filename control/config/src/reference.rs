//! Generates the configuration reference from the table of keys.

use std::fmt::Write as _;

use crate::spec::{Choice, any_of, sections};

/// Returns every key with its meaning, values and default as Markdown, one table per mapping.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from("# Configuration reference\n");
    for section in sections() {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "\n## {}\n\n{}", section.name, section.doc);
        let words = |names: &[&str]| any_of(names.iter().map(|name| format!("`{name}`")));
        let _ = match section.choice {
            Choice::Free => Ok(()),
            Choice::ExactlyOne(names) => write!(out, " Exactly one of {}.", words(names)),
            Choice::AtMostOne(names) => write!(out, " At most one of {}.", words(names)),
        };
        out.push_str("\n\n| Key | Meaning | Value | Default |\n|---|---|---|---|\n");
        for key in section.keys {
            let default = match key.default {
                Some(default) => format!("`{default}`"),
                None if key.required => "required".to_owned(),
                None => String::new(),
            };
            let value = key.shape.expected().replace('|', "\\|");
            let _ = writeln!(out, "| `{}` | {} | {value} | {default} |", key.name, key.doc);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_section_has_its_table() {
        let page = super::reference();
        assert!(page.contains("## route\n") && page.contains("| `access_log` |"));
        assert_eq!(page.matches("| Key |").count(), crate::spec::sections().len());
    }
}
