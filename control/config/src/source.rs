//! Rereads a file repeatedly, each time at the cost of the change and not of the whole file.
//!
//! If one of 10,000 routes changes, the other 9,999 need not be read again. A comparison of the two texts
//! finds the change. If it lies within items of `routes`, only those items are read, and they replace the
//! previous ones. In every other case, and on any error, the whole file is read as by [`load`](crate::load),
//! so each problem is reported in one way only. The module `change` explains why the result is the same.

mod change;
mod layout;
mod lines;

use std::mem::take;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::load::{self, Loader, Readable, Whole};
use crate::model::Config;
use crate::problem::{Problem, Problems};
use crate::read::{self, Draft};

pub(crate) use layout::Layout;
pub(crate) use lines::Lines;

/// A file and the result of its last reading.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    kept: Option<Kept>,
}

/// The result of a reading, like [`Loaded`](crate::Loaded).
#[derive(Debug)]
pub struct Reading<'a> {
    /// The configuration; `None` if one of the problems is an error. Its positions are those at which each
    /// part was read; only `problems` can convert them to the present text.
    pub config: Option<Held<'a>>,
    /// As [`Loaded::readable`](crate::Loaded::readable).
    pub readable: Option<Readable>,
    /// The problems. A problem that is added gets its positions converted to the present text.
    pub problems: Problems,
    /// How many routes this reading has read.
    pub anew: usize,
}

/// A reading without errors.
pub(crate) struct Kept {
    pub draft: Draft,
    pub layout: Layout,
    pub lines: Lines,
    /// Warnings about single values and about combinations within one place.
    pub warnings: Vec<Problem>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kept({} routes)", self.draft.config.routes.len())
    }
}

/// Access to a configuration, borrowed or owned.
#[derive(Debug)]
pub enum Held<'a> {
    /// Kept by the source, for comparison with the next text.
    Kept(&'a mut Config),
    /// Not kept by the source.
    Own(Box<Config>),
}

impl Deref for Held<'_> {
    type Target = Config;

    fn deref(&self) -> &Config {
        match self {
            Self::Kept(config) => config,
            Self::Own(config) => config,
        }
    }
}

impl Held<'_> {
    /// Clones the configuration without its files, routes, upstreams and consumers, which can be large.
    pub fn settings(&mut self) -> Config {
        let config = match self {
            Self::Kept(config) => &mut **config,
            Self::Own(config) => &mut **config,
        };
        let (files, routes) = (take(&mut config.files), take(&mut config.routes));
        let (upstreams, consumers) = (take(&mut config.upstreams), take(&mut config.consumers));
        let settings = config.clone();
        (config.files, config.routes) = (files, routes);
        (config.upstreams, config.consumers) = (upstreams, consumers);
        settings
    }
}

impl Source {
    /// Makes a source for a file, without reading it.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), kept: None }
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
        let kept = self.kept.take().and_then(|mut kept| {
            let anew = change::follow(&mut kept, load::read(&self.path).ok()?, variables)?;
            Some((kept, anew))
        });
        if let Some((kept, anew)) = kept {
            return self.kept.insert(kept).reading(anew);
        }
        let Whole { draft, layout, warnings, readable, problems } = Loader::whole(&self.path, variables);
        let anew = draft.as_ref().map_or(0, |draft| draft.config.routes.len());
        let config = match (draft, layout) {
            (None, _) => None,
            (Some(draft), None) => Some(Held::Own(Box::new(draft.config))),
            (Some(mut draft), Some(layout)) => {
                draft.references = Vec::new();
                draft.waits = Vec::new();
                let text = draft.config.files.first().map_or("", |file| &file.text);
                let lines = Lines::new(change::count_lines(text));
                let kept = self.kept.insert(Kept { draft, layout, lines, warnings });
                Some(Held::Kept(&mut kept.draft.config))
            }
        };
        Reading { config, readable, problems, anew }
    }
}

impl Kept {
    fn reading(&mut self, anew: usize) -> Reading<'_> {
        let config = &mut self.draft.config;
        let mut problems = Problems::moved(config.files.clone(), self.lines.clone());
        problems.extend(self.warnings.iter().cloned());
        problems.extend(read::unplaced(config));
        problems.sort();
        Reading { config: Some(Held::Kept(config)), readable: None, problems, anew }
    }
}
