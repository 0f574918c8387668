//! Result files: appends lines, and reads whole files.
//!
//! A file is only ever appended to, so a killed run loses at most its last, incomplete line. [`read`] sorts
//! the lines into [`Results`]; for lines that may be repeated (systems, verdicts, prices, tables) the last
//! one is valid. Files of another format version are refused.

use crate::FORMAT;
use crate::figures::Condensed;
use crate::measured::{Ceiling, Received, Trial, Verdict};
use crate::plan::{Cell, Header, SystemUsed};
use crate::price::{Instructions, Price};
use crate::rounds::Rounds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::io::{self, BufRead, Write};

/// A line of a result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum Line {
    /// The first line.
    Header(Box<Header>),
    /// A system that the study names.
    System(SystemUsed),
    /// A cell of the study.
    Cell(Cell),
    /// The request that the origin received from a system.
    Received(Received),
    /// The direct ceiling before a round.
    Ceiling(Ceiling),
    /// A measurement.
    Trial(Box<Trial>),
    /// The figures of a system in a cell, in place of its trials.
    Condensed(Box<Condensed>),
    /// The verdict on a system in a cell. A later one for the same cell and system replaces an earlier one.
    Verdict(Verdict),
    /// The instructions of a system for a request of a cell.
    Instructions(Instructions),
    /// The cost that a feature adds to a request.
    Price(Price),
    /// A text that the report prints under a section ("" means the whole report).
    Note {
        /// The section's title.
        section: String,
        /// The text, in Markdown.
        text: String,
    },
    /// A table that the study itself defines, such as seed 0's capacity plan; it is printed unchanged.
    Table {
        /// The section's title.
        section: String,
        /// The heads of the columns.
        head: Vec<String>,
        /// The rows, each as long as the head.
        rows: Vec<Vec<String>>,
    },
    /// The end of a finished run. A file without this line is from a run that was stopped and can be
    /// continued.
    End {
        /// The duration of the run in seconds.
        seconds: f64,
    },
}

/// A result file, sorted by kind of line; the order within each kind is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The first line.
    pub header: Header,
    /// The systems, the last line for each name.
    pub systems: Vec<SystemUsed>,
    /// The cells.
    pub cells: Vec<Cell>,
    /// The requests that the origin received, the last line for each system.
    pub received: Vec<Received>,
    /// The direct ceilings.
    pub ceilings: Vec<Ceiling>,
    /// The measurements.
    pub trials: Vec<Trial>,
    /// The figures of a condensed file, the last for each cell and system.
    pub condensed: Vec<Condensed>,
    /// The verdicts, the last for each cell and system.
    pub verdicts: Vec<Verdict>,
    /// The counted instructions, the last for each cell and system.
    pub instructions: Vec<Instructions>,
    /// The costs that features add, the last for each section, system and feature.
    pub prices: Vec<Price>,
    /// Notes: section and Markdown.
    pub notes: Vec<(String, String)>,
    /// Tables: section, head, rows.
    pub tables: Vec<(String, Vec<String>, Vec<Vec<String>>)>,
    /// The duration of the run in seconds; `None` if the run has not finished.
    pub end: Option<f64>,
}

impl Results {
    /// Returns the trials of a cell and system.
    pub fn trials_of<'a>(&'a self, cell: &'a str, system: &'a str) -> impl Iterator<Item = &'a Trial> {
        self.trials.iter().filter(move |trial| trial.cell == cell && trial.system == system)
    }

    /// Returns the rounds of a cell that count.
    pub fn rounds(&self, cell: &str) -> Rounds {
        let trials = self.trials.iter().filter(|trial| trial.cell == cell);
        Rounds::of(trials, |system| {
            self.verdict_of(cell, system).is_none_or(|verdict| verdict.kind.has_figures())
        })
    }

    /// Returns the condensed result of a system in a cell.
    pub fn condensed_of(&self, cell: &str, system: &str) -> Option<&Condensed> {
        self.condensed.iter().find(|one| one.cell == cell && one.system == system)
    }

    /// Returns the verdict on a system in a cell.
    pub fn verdict_of(&self, cell: &str, system: &str) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.cell == cell && verdict.system == system)
    }
}

/// Why a result file cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file itself cannot be read.
    Io(io::Error),
    /// A line that is not a [`Line`]: its number from 1, and the error.
    Line(usize, String),
    /// The first line is not a header.
    NoHeader,
    /// The file has an older format than this reader's.
    Older(u32),
    /// The file has a newer format than this reader's.
    Newer(u32),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Line(number, what) => write!(f, "line {number}: not a line of a result file: {what}"),
            Self::NoHeader => {
                write!(f, "line 1: expected the header of a result file ({{\"line\":\"header\",...}})")
            }
            Self::Older(format) => write!(
                f,
                "written in format {format}; this version reads format {FORMAT} alone: run the study again, or read it with \
                 the version that wrote it"
            ),
            Self::Newer(format) => {
                write!(f, "written in format {format}; this version reads format {FORMAT} alone")
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Writes one line.
///
/// # Errors
/// If the writer fails.
pub fn append(out: &mut impl Write, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    out.write_all(&text)
}

/// The part of the header that every format has.
#[derive(Deserialize)]
struct Written {
    format: u32,
}

/// Reads a whole file. Ignores an incomplete last line, which a killed run leaves.
///
/// # Errors
/// See [`ReadError`].
pub fn read(input: impl BufRead) -> Result<Results, ReadError> {
    let mut lines = input.split(b'\n').enumerate().peekable();
    let mut results: Option<Results> = None;
    while let Some((at, line)) = lines.next() {
        let line = line?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if results.is_none()
            && let Ok(Written { format }) = serde_json::from_slice(&line)
        {
            match format.cmp(&FORMAT) {
                Ordering::Less => return Err(ReadError::Older(format)),
                Ordering::Greater => return Err(ReadError::Newer(format)),
                Ordering::Equal => {}
            }
        }
        let parsed = match serde_json::from_slice::<Line>(&line) {
            Ok(parsed) => parsed,
            Err(error) if error.is_eof() && lines.peek().is_none() && results.is_some() => break,
            Err(error) => return Err(ReadError::Line(at + 1, error.to_string())),
        };
        match (&mut results, parsed) {
            (None, Line::Header(header)) => results = Some(empty(*header)),
            (None, _) => return Err(ReadError::NoHeader),
            (Some(_), Line::Header(_)) => {
                return Err(ReadError::Line(at + 1, "a second header; a file holds one run".into()));
            }
            (Some(results), line) => add(results, line),
        }
    }
    results.ok_or(ReadError::NoHeader)
}

fn empty(header: Header) -> Results {
    Results {
        header,
        systems: Vec::new(),
        cells: Vec::new(),
        received: Vec::new(),
        ceilings: Vec::new(),
        trials: Vec::new(),
        condensed: Vec::new(),
        verdicts: Vec::new(),
        instructions: Vec::new(),
        prices: Vec::new(),
        notes: Vec::new(),
        tables: Vec::new(),
        end: None,
    }
}

fn add(results: &mut Results, line: Line) {
    match line {
        // The results were created with the header; a second one is an error of `read`.
        Line::Header(_) => {}
        Line::System(system) => {
            results.systems.retain(|other| other.name != system.name);
            results.systems.push(system);
        }
        Line::Cell(cell) => {
            if results.cells.iter().all(|other| other.id != cell.id) {
                results.cells.push(cell);
            }
        }
        Line::Received(received) => {
            results.received.retain(|other| other.system != received.system);
            results.received.push(received);
        }
        Line::Ceiling(ceiling) => results.ceilings.push(ceiling),
        Line::Trial(trial) => results.trials.push(*trial),
        Line::Condensed(one) => {
            results.condensed.retain(|other| (&other.cell, &other.system) != (&one.cell, &one.system));
            results.condensed.push(*one);
        }
        Line::Verdict(verdict) => {
            results.verdicts.retain(|other| (&other.cell, &other.system) != (&verdict.cell, &verdict.system));
            results.verdicts.push(verdict);
        }
        Line::Instructions(counted) => {
            results
                .instructions
                .retain(|other| (&other.cell, &other.system) != (&counted.cell, &counted.system));
            results.instructions.push(counted);
        }
        Line::Price(price) => {
            let key = |price: &Price| (price.section.clone(), price.system.clone(), price.feature.clone());
            results.prices.retain(|other| key(other) != key(&price));
            results.prices.push(price);
        }
        Line::Note { section, text } => results.notes.push((section, text)),
        Line::Table { section, head, rows } => {
            results.tables.retain(|(other, other_head, _)| (other, other_head) != (&section, &head));
            results.tables.push((section, head, rows));
        }
        Line::End { seconds } => results.end = Some(seconds),
    }
}

/// Returns the JSON Schema of a line.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Line).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Host;
    use crate::price::Known;

    fn header() -> Line {
        Line::Header(Box::new(Header {
            format: FORMAT,
            study: "toll".into(),
            title: "The toll".into(),
            about: String::new(),
            seed: 7,
            command: "tollgate bench run toll --seed 7".into(),
            started: "2026-01-02T03:04:05Z".into(),
            version: "0.1.0".into(),
            host: Host::default(),
            scaled: vec![],
            baseline: None,
            decides: None,
            planned_seconds: 60.0,
        }))
    }

    fn note(text: &str) -> Line {
        Line::Note { section: String::new(), text: text.into() }
    }

    fn file(lines: &[Line]) -> Vec<u8> {
        let mut out = Vec::new();
        for line in lines {
            append(&mut out, line).unwrap();
        }
        out
    }

    #[test]
    fn a_file_comes_back_as_written() {
        let results = read(&file(&[header(), note("a"), Line::End { seconds: 3.0 }])[..]).unwrap();
        assert_eq!(results.header.seed, 7);
        assert_eq!(results.notes, [(String::new(), "a".to_owned())]);
        assert_eq!(results.end, Some(3.0));
    }

    #[test]
    fn statuses_come_back_from_within_a_line() {
        let text = r#"{"tool":"t","tool_version":"","command":[],"threads":1,"connections":1,"keep_alive":true,
            "model":{"kind":"closed"},"verification":"full","seconds":1.0,"sent":null,"ok":5,"failures":{},
            "statuses":{"200":5},"body_bytes":null,"connections_opened":null,"response_time":null,"service_time":null,
            "send_lag":null,"windows":[]}"#;
        let load: crate::LoadResult = serde_json::from_str(text).unwrap();
        let trial = crate::Trial {
            cell: "1-1".into(),
            system: "s".into(),
            round: 1,
            turn: 1,
            at: 0.0,
            load: Some(load),
            evidence: crate::Evidence::default(),
            cost: None,
            warm_up: 0.0,
            status: crate::Status::Good,
        };
        let results = read(&file(&[header(), Line::Trial(Box::new(trial.clone()))])[..]).unwrap();
        assert_eq!(results.trials, [trial]);
    }

    #[test]
    fn a_cut_last_line_is_left_out_and_a_cut_line_before_is_an_error() {
        let whole = file(&[header(), note("kept"), note("cut")]);
        let results = read(&whole[..whole.len() - 9]).unwrap();
        assert_eq!(results.notes.len(), 1);
        let mut broken = whole[..whole.len() - 9].to_vec();
        broken.extend_from_slice(b"\n");
        broken.extend(file(&[note("after")]));
        assert!(matches!(read(&broken[..]), Err(ReadError::Line(3, _))));
    }

    #[test]
    fn a_later_count_and_price_replace_the_earlier_ones_and_a_reason_comes_back() {
        let counted = |each| {
            let (cell, system) = ("1-1".to_owned(), "nginx".to_owned());
            Line::Instructions(Instructions { cell, system, requests: 1_000, each })
        };
        let price = |feature: &str, instructions| {
            Line::Price(Price {
                section: "Features".into(),
                system: "nginx".into(),
                feature: feature.into(),
                whole: false,
                cpu_us: Known::Is(crate::Summary { estimate: 1.5, low: 1.0, high: 2.0, rounds: 7 }),
                p99_us: Known::Not("cannot".into()),
                instructions,
            })
        };
        let lines = [
            header(),
            counted(Known::Not("valgrind is not installed".into())),
            price("log", Known::Not("not counted".into())),
            price("id", Known::Is(7.0)),
            counted(Known::Is(20_000.0)),
            price("log", Known::Is(2_500.0)),
        ];
        let results = read(&file(&lines)[..]).unwrap();
        assert_eq!(results.instructions.len(), 1);
        assert_eq!(results.instructions[0].each, Known::Is(20_000.0));
        let reported: Vec<(&str, Option<&f64>)> = results
            .prices
            .iter()
            .map(|price| (price.feature.as_str(), price.instructions.figure()))
            .collect();
        assert_eq!(reported, [("id", Some(&7.0)), ("log", Some(&2_500.0))]);
        assert_eq!(results.prices[0].p99_us, Known::Not("cannot".into()));
    }

    #[test]
    fn other_files_are_refused_by_name() {
        assert!(matches!(read(&file(&[note("x")])[..]), Err(ReadError::NoHeader)));
        assert!(matches!(read(&b""[..]), Err(ReadError::NoHeader)));
        let twice = file(&[header(), note("x"), header()]);
        assert!(matches!(read(&twice[..]), Err(ReadError::Line(3, why)) if why.contains("a second header")));
        let Line::Header(mut newer) = header() else { unreachable!() };
        newer.format = FORMAT + 1;
        assert!(matches!(read(&file(&[Line::Header(newer)])[..]), Err(ReadError::Newer(_))));
        let older = br#"{"line":"header","format":1,"gone":true}"#;
        let error = read(&older[..]).unwrap_err();
        assert!(error.to_string().contains("run the study again"), "{error}");
    }

    #[test]
    fn the_schema_names_every_kind_of_line() {
        let text = schema().to_string();
        for kind in [
            "header",
            "system",
            "cell",
            "received",
            "ceiling",
            "trial",
            "verdict",
            "instructions",
            "price",
            "note",
            "table",
            "end",
        ] {
            assert!(text.contains(&format!("\"{kind}\"")), "{kind} is not in the schema");
        }
    }
}
