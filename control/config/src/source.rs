//! A file that is read again and again, each time at the cost of what has changed in it.
//!
//! Of 10,000 routes one is changed, and 9,999 need not be read again. What has changed between two texts is found by
//! comparing them; if it lies within items of `routes`, those are read alone and take the place of the ones before. In
//! every other case, and whenever something is wrong, all is read, by [`load`](crate::load): so a problem is told in one
//! way only. See `change` for why the result is the same.

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

/// A file, and what it held when it was last read.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    kept: Option<Kept>,
}

/// What came of reading it, as [`Loaded`](crate::Loaded) has it.
#[derive(Debug)]
pub struct Reading<'a> {
    /// The configuration; nothing when one of the problems is an error. Its places are those of the text that each part
    /// was read from: only `problems` knows what has become of them.
    pub config: Option<Held<'a>>,
    /// As [`Loaded::readable`](crate::Loaded::readable).
    pub readable: Option<Readable>,
    /// What is wrong. It brings whatever is added to it to its place.
    pub problems: Problems,
    /// How many routes were read for it.
    pub anew: usize,
}

/// A good reading.
pub(crate) struct Kept {
    pub draft: Draft,
    pub layout: Layout,
    pub lines: Lines,
    /// Of values and of what goes together in one place.
    pub warnings: Vec<Problem>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kept({} routes)", self.draft.config.routes.len())
    }
}

/// A configuration for as long as it is needed.
#[derive(Debug)]
pub enum Held<'a> {
    /// It will be compared with what the file holds the next time.
    Kept(&'a mut Config),
    /// It will not.
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
    /// All of it but its resources and texts, which can be large.
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
    /// A file that was not read yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), kept: None }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what has changed in it; at first, all of it. Variables come from the process's environment, which does not
    /// change.
    pub fn load(&mut self) -> Reading<'_> {
        self.load_with(&|name| std::env::var(name).ok())
    }

    /// As [`load`](Self::load), with variables from elsewhere: the same ones each time.
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
