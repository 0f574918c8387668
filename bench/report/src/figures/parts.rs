//! Divides a section into the pages of a report, each with one connection kind and one number of connections.
//!
//! A [`Part`] has the cells of one connection kind: protocol, and kept connections or one for each request. Its charts
//! may run over several numbers of connections. Each of its [`Page`]s has the cells with one number of connections, and
//! their tables. A part with a single page is that page. HTML and Markdown both follow this division. Settings are read
//! under the names that result files have now and had in earlier versions; a cell whose file does not hold them has no
//! kind and no number, and shares a page with its like.

use super::{CellReport, Section};

/// The cells of a section with one connection kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The section's title, with the connection kind if the section has several.
    pub title: String,
    /// The connection kind in words; `None` if the file does not hold it.
    pub kind: Option<String>,
    /// The cells, with the section's notes, tables and prices.
    pub section: Section,
    /// The pages, one for each number of connections. Empty for a section without cells.
    pub pages: Vec<Page>,
}

/// The cells of a part with one number of connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The number of connections in words.
    pub title: String,
    /// The cells, without the notes and tables of the section. Its title names part and page.
    pub section: Section,
}

impl Section {
    /// Returns the parts of this section, in the order in which their first cells appear.
    pub fn parts(&self) -> Vec<Part> {
        let mut kinds: Vec<Option<String>> = Vec::new();
        for cell in &self.cells {
            let kind = kind(cell);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if kinds.is_empty() {
            let (title, section) = (self.title.clone(), self.clone());
            return vec![Part { title, kind: None, section, pages: Vec::new() }];
        }
        let several = kinds.len() > 1;
        let parts = kinds.into_iter().enumerate().map(|(at, found)| {
            let title = match found.as_ref().filter(|_| several) {
                Some(kind) => format!("{}: {kind}", self.title),
                None => self.title.clone(),
            };
            let own = |cell: &&CellReport| kind(cell) == found;
            let mut section = self.with(&title, self.cells.iter().filter(own).cloned().collect());
            // Notes, tables and prices concern the whole section, so only its first part has them.
            if at == 0 {
                section.notes = self.notes.clone();
                section.tables = self.tables.clone();
                section.prices = self.prices.clone();
            }
            let pages = section.pages();
            Part { title, kind: found, section, pages }
        });
        parts.collect()
    }

    fn pages(&self) -> Vec<Page> {
        let mut titles: Vec<String> = Vec::new();
        for cell in &self.cells {
            let title = count(cell);
            if !titles.contains(&title) {
                titles.push(title);
            }
        }
        let pages = titles.into_iter().map(|title| {
            let cells = self.cells.iter().filter(|cell| count(cell) == title).cloned().collect();
            let named =
                if title.is_empty() { self.title.clone() } else { format!("{}, {title}", self.title) };
            Page { section: self.with(&named, cells), title }
        });
        pages.collect()
    }

    /// Returns a section of some of the cells, without notes, tables and prices.
    fn with(&self, title: &str, cells: Vec<CellReport>) -> Self {
        Self {
            title: title.to_owned(),
            cells,
            compared_by: self.compared_by.clone(),
            notes: Vec::new(),
            tables: Vec::new(),
            prices: Vec::new(),
        }
    }
}

/// Returns the load of a cell in words: `64 kept connections of HTTP/1.1`. `None` if the file does not hold it.
pub(super) fn load(cell: &CellReport) -> Option<String> {
    let protocol = protocol(cell)?;
    let connections = connections(cell)?;
    let each = match streams(cell) {
        1 => String::new(),
        streams => format!(", {streams} requests at a time on each"),
    };
    Some(match (is_kept(cell), connections) {
        (true, 1) => format!("one kept connection of {protocol}{each}"),
        (true, _) => {
            format!("{} kept connections of {protocol}{each}", crate::number::whole(connections.into()))
        }
        (false, 1) => format!("a new connection of {protocol} for each request, one at a time"),
        (false, _) => format!(
            "a new connection of {protocol} for each request, {} at a time",
            crate::number::whole(connections.into())
        ),
    })
}

fn kind(cell: &CellReport) -> Option<String> {
    let protocol = protocol(cell)?;
    Some(match is_kept(cell) {
        true => format!("{protocol}, kept connections"),
        false => format!("{protocol}, a connection for each request"),
    })
}

/// Returns the number of connections in words; empty if the file does not hold it.
pub(super) fn count(cell: &CellReport) -> String {
    let Some(connections) = connections(cell) else { return String::new() };
    let noun = if connections == 1 { "connection" } else { "connections" };
    match streams(cell) {
        1 => format!("{} {noun}", crate::number::whole(connections.into())),
        streams => format!("{} {noun} of {streams} streams", crate::number::whole(connections.into())),
    }
}

/// Returns a setting under its name, or under the one of earlier versions.
fn setting<'a>(cell: &'a CellReport, name: &str) -> Option<&'a str> {
    let found = cell.settings.get(name).or_else(|| cell.settings.get(&name.replace('-', "_")));
    found.map(String::as_str)
}

/// Returns the number of client connections. A machine may allow fewer than the study asks for; the axis has the number
/// that was used.
fn connections(cell: &CellReport) -> Option<u32> {
    match &cell.axis {
        Some((axis, value)) if axis == "connections" => Some(*value as u32),
        _ => setting(cell, "connections")?.parse().ok(),
    }
}

fn streams(cell: &CellReport) -> u32 {
    setting(cell, "streams").and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn is_kept(cell: &CellReport) -> bool {
    !matches!(setting(cell, "keep-alive"), Some("no" | "false"))
}

fn protocol(cell: &CellReport) -> Option<String> {
    if cell.settings.is_empty() {
        return None;
    }
    let origin = setting(cell, "origin").unwrap_or("");
    let has = |name: &str| setting(cell, "features").unwrap_or("").split(", ").any(|feature| feature == name);
    let name = if origin.contains("gRPC streams") || origin == "grpc-stream" {
        "gRPC streams"
    } else if origin.contains("gRPC") || origin == "grpc" {
        "gRPC"
    } else if has("tcp") {
        "HTTP/1.1 through a TCP relay"
    } else if setting(cell, "http") == Some("2") {
        "HTTP/2"
    } else if setting(cell, "tool") == Some("ab") {
        "HTTP/1.0"
    } else {
        "HTTP/1.1"
    };
    Some(match (has("tls"), has("passthrough")) {
        (true, true) => format!("{name}, TLS passed through"),
        (true, false) => format!("{name} over TLS"),
        (false, _) => name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(id: &str, settings: &[(&str, &str)]) -> CellReport {
        CellReport {
            id: id.to_owned(),
            title: id.to_owned(),
            axis: None,
            settings: settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            offered: None,
            rows: Vec::new(),
            ceiling_rps: None,
        }
    }

    fn section(cells: Vec<CellReport>) -> Section {
        Section {
            title: "All".into(),
            cells,
            compared_by: Vec::new(),
            notes: vec!["A note.".into()],
            tables: Vec::new(),
            prices: Vec::new(),
        }
    }

    #[test]
    fn each_page_has_one_connection_kind_and_one_number() {
        let kept = [("connections", "64"), ("keep-alive", "yes")];
        let many = [("connections", "1000"), ("keep-alive", "yes")];
        // As files of an earlier version have it.
        let closed = [("connections", "64"), ("keep_alive", "false")];
        let two =
            [("connections", "8"), ("http", "2"), ("streams", "32"), ("features", "tls, forwarded_headers")];
        let cells =
            vec![cell("a", &kept), cell("b", &closed), cell("c", &many), cell("d", &kept), cell("e", &two)];
        let parts = section(cells).parts();
        let ids = |page: &Page| {
            page.section.cells.iter().map(|cell| cell.id.as_str()).collect::<Vec<_>>().join(" ")
        };
        let seen: Vec<(&str, Vec<(&str, String)>)> = parts
            .iter()
            .map(|part| {
                let pages = part.pages.iter().map(|page| (page.title.as_str(), ids(page)));
                (part.title.as_str(), pages.collect())
            })
            .collect();
        let page = |title: &'static str, ids: &str| (title, ids.to_owned());
        assert_eq!(
            seen,
            [
                (
                    "All: HTTP/1.1, kept connections",
                    vec![page("64 connections", "a d"), page("1,000 connections", "c")]
                ),
                ("All: HTTP/1.1, a connection for each request", vec![page("64 connections", "b")]),
                ("All: HTTP/2 over TLS, kept connections", vec![page("8 connections of 32 streams", "e")]),
            ]
        );
        assert_eq!(parts.iter().filter(|part| !part.section.notes.is_empty()).count(), 1);
    }

    #[test]
    fn loads_are_said_in_words() {
        let said = |settings: &[(&str, &str)]| load(&cell("a", settings));
        assert_eq!(said(&[("connections", "1")]).as_deref(), Some("one kept connection of HTTP/1.1"));
        assert_eq!(
            said(&[("connections", "200"), ("tool", "ab"), ("keep-alive", "no")]).as_deref(),
            Some("a new connection of HTTP/1.0 for each request, 200 at a time")
        );
        assert_eq!(
            said(&[("connections", "8"), ("streams", "32"), ("origin", "1 x gRPC (1 worker)")]).as_deref(),
            Some("8 kept connections of gRPC, 32 requests at a time on each")
        );
        assert_eq!(said(&[]), None);
    }

    #[test]
    fn a_file_without_settings_has_one_page_for_each_section() {
        let parts = section(vec![cell("a", &[]), cell("b", &[])]).parts();
        assert_eq!((parts.len(), parts[0].pages.len(), parts[0].title.as_str()), (1, 1, "All"));
        assert_eq!((parts[0].kind.clone(), parts[0].pages[0].title.as_str()), (None, ""));
        let tables_only = section(Vec::new()).parts();
        assert_eq!((tables_only.len(), tables_only[0].pages.len()), (1, 0));
    }
}
