//! Annotations of ingress-nginx, `nginx.ingress.kubernetes.io/*`.
//!
//! [`table`] names each annotation with the theme that reads it, and says whether it behaves the same here. A
//! theme is a module with a function `read`, which reads its annotations from a [`Reader`] and writes what they
//! ask for into [`Wanted`], in the form of the gateway's documents. So an annotation is added in two places
//! side by side: a row in the table, and some lines in its theme. [`forms`] has the forms that values must have.
//!
//! Nothing is ignored silently. An annotation that is unknown, unsupported or not valid is reported. If an
//! annotation that keeps clients out cannot be applied, the paths of the Ingress are not served at all.

mod addresses;
mod basic_auth;
mod bodies;
mod canary;
mod cors;
mod errors;
mod external_auth;
mod forms;
mod headers;
mod hosts;
mod limits;
mod mirror;
mod observation;
mod reader;
mod redirects;
mod retries;
mod rewrite;
mod table;
mod timeouts;
mod unsupported;
mod upstreams;
mod variables;
mod wanted;

pub use addresses::admit_without_credentials;
pub use external_auth::for_host as authorization_for_host;
pub use forms::unusable_path;
pub use reader::{Behaviour, Finding};
pub use redirects::{to_https, to_root, www_counterpart};
pub use rewrite::{Pattern, Target, literal_beginning, pattern, target};
pub use wanted::{HttpsRedirect, Wanted};

use std::collections::BTreeSet;

use crate::object::{Meta, Reference};
use crate::objects::Objects;
use reader::Reader;
use table::{Support, THEMES};

/// The beginning of the annotations' names.
pub const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// The settings that annotations of an Ingress ask for, and how the gateway serves each.
pub struct Reading {
    /// The settings.
    pub wanted: Wanted,
    /// How each annotation is served.
    pub findings: Vec<Finding>,
    /// The Secrets and ConfigMaps that they refer to.
    pub references: BTreeSet<Reference>,
}

/// Reads the annotations of an Ingress.
pub fn read(objects: &Objects, meta: &Meta) -> Reading {
    let mut wanted = Wanted::default();
    let mut reader = Reader::new(objects, meta);
    let mut unknown: BTreeSet<&str> =
        meta.annotations.keys().filter_map(|name| name.strip_prefix(PREFIX)).collect();
    for theme in THEMES {
        let present: Vec<_> = theme.annotations.iter().filter(|row| unknown.remove(row.name)).collect();
        for row in &present {
            reader.report(
                row.name,
                match row.support {
                    Support::Same => (Behaviour::Same, ""),
                    Support::Differs(how) => (Behaviour::Differs, how),
                    Support::Unsupported(instead) => (Behaviour::Unsupported, instead),
                },
            );
        }
        if !present.is_empty() {
            (theme.read)(&mut reader, &mut wanted);
        }
    }
    for name in unknown {
        reader.report(name, (Behaviour::Unsupported, "there is no such annotation"));
    }
    let Reader { findings, references, .. } = reader;
    Reading { wanted, findings, references }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Reads annotations of an Ingress `demo/shop`.
    pub fn read_all(annotations: &[(&str, &str)]) -> Reading {
        read_with(&Objects::default(), annotations)
    }

    /// Reads annotations of an Ingress `demo/shop`, which may refer to objects.
    pub fn read_with(objects: &Objects, annotations: &[(&str, &str)]) -> Reading {
        let annotations: BTreeMap<String, String> = annotations
            .iter()
            .map(|(name, value)| (format!("{PREFIX}{name}"), (*value).to_owned()))
            .collect();
        let meta = Meta { namespace: "demo".into(), name: "shop".into(), annotations, ..Meta::default() };
        read(objects, &meta)
    }

    #[test]
    fn every_annotation_has_one_row() {
        let mut names = BTreeSet::new();
        for row in THEMES.iter().flat_map(|theme| theme.annotations) {
            assert!(names.insert(row.name), "{} has two rows", row.name);
            assert!(
                !row.name.starts_with(PREFIX) && row.name == row.name.to_ascii_lowercase(),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn what_is_unknown_or_unsupported_is_reported() {
        let reading =
            read_all(&[("no-such", "1"), ("configuration-snippet", "x"), ("ssl-redirect", "false")]);
        let found: Vec<_> =
            reading.findings.iter().map(|one| (one.annotation.as_str(), one.behaviour)).collect();
        assert_eq!(
            found,
            [
                ("ssl-redirect", Behaviour::Same),
                ("configuration-snippet", Behaviour::Unsupported),
                ("no-such", Behaviour::Unsupported),
            ]
        );
        assert!(reading.findings.iter().all(|one| one.is_same() || !one.text.is_empty()));
    }

    /// Returns the table of all annotations as Markdown.
    fn markdown() -> String {
        let mut out = String::from("| Annotation | Here |\n|---|---|\n");
        for row in THEMES.iter().flat_map(|theme| theme.annotations) {
            let text = match row.support {
                Support::Same => "same".to_owned(),
                Support::Differs(how) => format!("differs: {how}"),
                Support::Unsupported(instead) => format!("**not supported**: {instead}"),
            };
            out.push_str(&format!("| `{}` | {text} |\n", row.name));
        }
        out
    }

    /// `BLESS=1` writes the table.
    #[test]
    fn the_guide_has_the_table() {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/migrate/ingress-nginx.md");
        let page = std::fs::read_to_string(&path).expect("the guide");
        let (begin, end) = ("<!-- annotations -->\n", "<!-- end of annotations -->");
        let (before, rest) = page.split_once(begin).expect("the begin of the table");
        let (table, after) = rest.split_once(end).expect("the end of the table");
        let expected = markdown();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, format!("{before}{begin}{expected}{end}{after}")).expect("written");
        } else {
            assert_eq!(table, expected);
        }
    }
}
