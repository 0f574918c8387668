//! Rereads a file repeatedly, each time at the cost of the change and not of the whole file.
//!
//! If one of 10,000 routes changes, the other 9,999 need not be read again. A comparison of the two texts
//! finds the change. If it lies within items of `routes`, only those items are read, and they replace the
//! previous ones. In every other case, and on any error, the whole file is read as by [`load`](crate::load),
//! so each problem is reported in one way only. The module `change` explains why the result is the same.

mod change;
mod layout;
mod line_map;

use std::mem::take;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::load::{self, FullRead, Loader, PartialConfig};
use crate::model::Config;
use crate::problem::Problem;
use crate::problems::Problems;
use crate::read::{Draft, upstreams};

pub(crate) use layout::Layout;
pub(crate) use line_map::LineMap;

/// A file and the result of its last reading.
#[derive(Debug)]
pub struct ConfigSource {
    path: PathBuf,
    last: Option<LastReading>,
}

/// The result of a reading, like [`Loaded`](crate::Loaded).
#[derive(Debug)]
pub struct Reading<'a> {
    /// The configuration; `None` if one of the problems is an error. Its positions are those at which each
    /// part was read; only `problems` can convert them to the present text.
    pub config: Option<ConfigRef<'a>>,
    /// As [`Loaded::partial`](crate::Loaded::partial).
    pub partial: Option<PartialConfig>,
    /// The problems. A problem that is added gets its positions converted to the present text.
    pub problems: Problems,
    /// How many routes this reading has read.
    pub routes_read: usize,
}

/// A reading without errors.
pub(crate) struct LastReading {
    pub draft: Draft,
    pub layout: Layout,
    pub lines: LineMap,
    /// Warnings about single values and about combinations within one place.
    pub warnings: Vec<Problem>,
}

impl std::fmt::Debug for LastReading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kept({} routes)", self.draft.config.routes.len())
    }
}

/// Access to a configuration, borrowed or owned.
#[derive(Debug)]
pub enum ConfigRef<'a> {
    /// Kept by the source, for comparison with the next text.
    Borrowed(&'a mut Config),
    /// Not kept by the source.
    Owned(Box<Config>),
}

impl Deref for ConfigRef<'_> {
    type Target = Config;

    fn deref(&self) -> &Config {
        match self {
            Self::Borrowed(config) => config,
            Self::Owned(config) => config,
        }
    }
}

impl ConfigRef<'_> {
    /// Clones the configuration without its files, routes, upstreams and consumers, which can be large.
    pub fn settings(&mut self) -> Config {
        let config = match self {
            Self::Borrowed(config) => &mut **config,
            Self::Owned(config) => &mut **config,
        };
        let (files, routes) = (take(&mut config.files), take(&mut config.routes));
        let (upstreams, consumers) = (take(&mut config.upstreams), take(&mut config.consumers));
        let settings = config.clone();
        (config.files, config.routes) = (files, routes);
        (config.upstreams, config.consumers) = (upstreams, consumers);
        settings
    }
}

impl ConfigSource {
    /// Makes a source for a file, without reading it.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), last: None }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the changed part; the first call reads everything. Variables come from the process's
    /// environment, which does not change.
    pub fn load(&mut self) -> Reading<'_> {
        self.load_with(&|name| std::env::var(name).ok())
    }

    /// Works like [`load`](Self::load), with variables from `variables`, which must not change between calls.
    pub fn load_with(&mut self, variables: &dyn Fn(&str) -> Option<String>) -> Reading<'_> {
        let last = self.last.take().and_then(|mut last| {
            let routes_read = change::reread(&mut last, load::read(&self.path).ok()?, variables)?;
            Some((last, routes_read))
        });
        if let Some((last, routes_read)) = last {
            return self.last.insert(last).reading(routes_read);
        }
        let FullRead { draft, layout, warnings, partial, problems } = Loader::read_all(&self.path, variables);
        let routes_read = draft.as_ref().map_or(0, |draft| draft.config.routes.len());
        let config = match (draft, layout) {
            (None, _) => None,
            (Some(draft), None) => Some(ConfigRef::Owned(Box::new(draft.config))),
            (Some(mut draft), Some(layout)) => {
                draft.references = Vec::new();
                draft.per_try_timeouts = Vec::new();
                let text = draft.config.files.first().map_or("", |file| &file.text);
                let lines = LineMap::new(change::count_lines(text));
                let last = self.last.insert(LastReading { draft, layout, lines, warnings });
                Some(ConfigRef::Borrowed(&mut last.draft.config))
            }
        };
        Reading { config, partial, problems, routes_read }
    }
}

impl LastReading {
    fn reading(&mut self, routes_read: usize) -> Reading<'_> {
        let config = &mut self.draft.config;
        let mut problems = Problems::with_line_map(config.files.clone(), self.lines.clone());
        problems.extend(self.warnings.iter().cloned());
        problems.extend(upstreams::check_zones(config));
        problems.sort();
        Reading { config: Some(ConfigRef::Borrowed(config)), partial: None, problems, routes_read }
    }
}
