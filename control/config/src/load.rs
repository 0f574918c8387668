//! Loads a configuration from files or from a string: parses each file, follows includes, runs the readers,
//! and then makes the checks that need the whole configuration.
//!
//! The command line calls [`load`] for a file and [`from_text`] for standard input. A running gateway rereads
//! its file through `Source`, which uses `Loader` directly, so that it can later reread only a part. A
//! configuration with an error never leaves this module as a [`Config`].

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::env::{self, Lookup};
use crate::file_access::{self, NamedFile, ReadError, run_with_timeout};
use crate::foreign;
use crate::include;
use crate::model::{
    Action, Config, Discover, Kubeconfig, Listener, ListenerProtocol, Paths, PemBytes, PemFile, Route,
};
use crate::parse::parse;
use crate::pem_files::pem_files;
use crate::position::{At, SourceFile, Spanned};
use crate::problem::{Problem, Severity};
use crate::problems::Problems;
use crate::read::{self, Draft, Include, upstreams};
use crate::reader::Reader;
use crate::sections::cache::folder_problem;
use crate::sections::files::root_warning;
use crate::source::Layout;

/// Maximum size of a file in bytes. 100,000 routes are about 10 MiB.
pub(crate) const FILE_MAX_BYTES: usize = 64 << 20;
/// Maximum size of a PEM file in bytes. All roots that browsers trust are 250 KiB.
const PEM_MAX_BYTES: usize = 4 << 20;

/// The result of loading a configuration.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration; `None` if one of the problems is an error.
    pub config: Option<Config>,
    /// The usable part of a configuration with errors; `None` if there is no error, or if an error may change
    /// the meaning of that part.
    pub partial: Option<PartialConfig>,
    /// The problems in order of position, with the files that they refer to.
    pub problems: Problems,
}

/// The part of a rejected configuration on which checks of combinations still make sense, so that one run
/// reports all problems. It must not be run.
#[derive(Clone, Debug)]
pub struct PartialConfig {
    /// Routes whose match was read without an error. Their other fields may be wrong.
    pub routes: Vec<Route>,
    /// How ambiguous bytes of the path are treated.
    pub paths: Paths,
}

/// Reads a file and its includes. Variables come from the process's environment. An unreadable file is
/// reported as a problem like any other. The file itself may be a pipe, for example a shell's `<(command)`:
/// the person who waits for the result can interrupt the wait.
#[must_use]
pub fn load(path: &Path) -> Loaded {
    load_with(path, &|name| std::env::var(name).ok())
}

/// Works like [`load`], with variables from `variables`.
#[must_use]
pub fn load_with(path: &Path, variables: &dyn Fn(&str) -> Option<String>) -> Loaded {
    let mut loader = Loader { takes_pipes: true, ..Loader::new(variables) };
    loader.file(path, None, None);
    loader.finish()
}

/// Reads a text that is not a file, such as standard input. `name` is used as the file name in problems.
/// `include` is an error. `variables` decides which environment variables the text may use (`&|_| None`: none).
#[must_use]
pub fn from_text(name: &str, text: &str, variables: &dyn Fn(&str) -> Option<String>) -> Loaded {
    let mut loader = Loader::new(variables);
    loader.files.push(SourceFile { name: name.to_owned(), text: text.to_owned() });
    for pattern in loader.text(0, text, true) {
        loader.draft.upstreams_may_be_missing = true;
        let problem = Problem::error(
            pattern.at,
            "`include` needs a configuration file, because its paths are relative to it",
        );
        loader
            .problems
            .push(problem.help("this configuration was not read from a file: write it without `include`"));
    }
    loader.finish()
}

pub(crate) struct Loader<'a> {
    variables: Lookup<'a>,
    pub files: Vec<SourceFile>,
    pub problems: Vec<Problem>,
    draft: Draft,
    /// Real paths of the files whose includes are being followed, outermost first.
    pub open: Vec<PathBuf>,
    /// Real paths of all files read so far.
    pub seen: HashSet<PathBuf>,
    /// Positions of the routes in the first file.
    layout: Option<Layout>,
    /// Whether the first file may be a pipe.
    takes_pipes: bool,
    /// Whether a file has `include`.
    includes: bool,
}

/// The result of a complete read, for a source that may later reread only a part.
pub(crate) struct FullRead {
    /// The configuration and the readers' bookkeeping; `None` if one of the problems is an error.
    pub draft: Option<Draft>,
    /// Positions of the routes, if the configuration is a single file with one block list of routes.
    pub layout: Option<Layout>,
    /// Warnings found up to the checks of references and timeouts. They exclude the checks that are repeated
    /// after every partial read.
    pub warnings: Vec<Problem>,
    pub partial: Option<PartialConfig>,
    pub problems: Problems,
}

impl<'a> Loader<'a> {
    fn new(variables: Lookup<'a>) -> Self {
        Self {
            variables,
            files: Vec::new(),
            problems: Vec::new(),
            draft: Draft::default(),
            open: Vec::new(),
            seen: HashSet::new(),
            layout: None,
            takes_pipes: false,
            includes: false,
        }
    }

    /// Reads a file and its includes.
    pub fn read_all(path: &Path, variables: Lookup<'a>) -> FullRead {
        let mut loader = Self::new(variables);
        loader.file(path, None, None);
        loader.finish_checks()
    }

    /// Reads a file and its includes. `by` is the `include` that names it; `None` for the first file.
    pub fn file(&mut self, path: &Path, canonical: Option<PathBuf>, by: Option<&Include>) {
        let main = by.is_none();
        let name = path.display().to_string();
        let text = match if main && self.takes_pipes { read_any(path) } else { read(path) } {
            Ok(text) => text,
            Err(reason) => {
                let (at, message) = match by {
                    Some(include) => (include.at, format!("cannot read {}: {reason}", include.shown)),
                    None => {
                        self.files.push(SourceFile { name, text: String::new() });
                        (At::default(), format!("cannot read the file: {reason}"))
                    }
                };
                self.report_unreadable(Problem::error(at, message));
                return;
            }
        };
        let index = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        self.files.push(SourceFile { name, text: String::new() });
        let patterns = self.text(index, &text, main);
        if let Some(file) = self.files.get_mut(index as usize) {
            file.text = text;
        }
        let canonical = canonical.or_else(|| real_path(path)).unwrap_or_else(|| path.to_owned());
        self.seen.insert(canonical.clone());
        self.open.push(canonical);
        for pattern in patterns {
            include::load_includes(self, path, &pattern);
        }
        self.open.pop();
    }

    /// Reports that a file could not be read, and notes that upstreams may therefore be unknown.
    pub fn report_unreadable(&mut self, problem: Problem) {
        self.draft.upstreams_may_be_missing = true;
        self.problems.push(problem);
    }

    /// Reads one text and returns the patterns of its `include`.
    fn text(&mut self, file: u32, text: &str, main: bool) -> Vec<Include> {
        let mut parsed = parse(file, text);
        if let Some(problem) = foreign::file::recognize(file, text, &parsed) {
            self.draft.is_incomplete = true;
            self.report_unreadable(problem);
            return Vec::new();
        }
        self.problems.append(&mut parsed.problems);
        self.draft.is_incomplete |= !parsed.whole;
        let Some(root) = &mut parsed.root else {
            if parsed.complete {
                let at = At { file, ..At::default() };
                let problem = Problem::error(at, "the file is empty");
                self.problems.push(if main {
                    problem.help("the smallest useful file has `listen:` and one entry under `routes:`")
                } else {
                    problem.help("remove it from `include`, or write `routes: []`")
                });
            }
            return Vec::new();
        };
        if main && parsed.plain && parsed.whole {
            self.layout = Layout::of(root, text);
        }
        env::expand(root, self.variables, &mut self.problems);
        let mut reader = Reader::new(parsed.complete);
        let patterns = read::root(&mut reader, root, main, &mut self.draft);
        self.problems.append(&mut reader.problems);
        if !patterns.is_empty() {
            self.layout = None;
            self.includes = true;
        }
        patterns
    }

    /// Returns the problem of a configuration without routes. With another source there is none, because
    /// routes may be there: the code that reads them warns if there are none either.
    fn no_routes(&self) -> Option<Problem> {
        let message = "no routes: every request would be answered 404";
        let Draft { config, routes, .. } = &self.draft;
        let sources = [config.store.is_some(), config.etcd.is_some(), config.kubernetes.is_some()];
        if sources.contains(&true) || config.controller.is_some() || config.fleet.is_some() {
            return None;
        }
        // Listeners of layer 4 take no requests.
        let takes_requests = |listener: &Listener| listener.protocol == ListenerProtocol::Http;
        if routes.is_none() && !config.listen.is_empty() && !config.listen.iter().any(takes_requests) {
            return None;
        }
        Some(match routes {
            Some(at) => Problem::warning(*at, message),
            // The pattern of `include` may match no file yet.
            None if self.includes => Problem::warning(At::default(), message),
            None => Problem::error(At::default(), message)
                .expected("a list of routes under `routes`, here or in an included file")
                .help("write `routes: []` if that is intended"),
        })
    }

    fn finish(self) -> Loaded {
        let FullRead { draft, partial, problems, .. } = self.finish_checks();
        Loaded { config: draft.map(|draft| draft.config), partial, problems }
    }

    /// Checks what depends on the whole configuration, resolves relative paths and reads PEM files.
    fn finish_checks(mut self) -> FullRead {
        let Draft { references, upstream_names, .. } = &self.draft;
        if !self.draft.is_incomplete && !self.draft.upstreams_may_be_missing {
            self.problems.extend(read::unknown(references, upstream_names));
        }
        self.problems
            .extend(read::check_per_try(&self.draft.per_try_timeouts, self.draft.config.timeouts.total));
        let warnings = self.layout.as_ref().map(|_| self.problems.clone()).unwrap_or_default();
        let broken = self.problems.iter().any(|problem| problem.severity == Severity::Error);
        if self.draft.config.routes.is_empty() && !broken {
            self.problems.extend(self.no_routes());
        }
        self.problems.extend(upstreams::check_zones(&self.draft.config));
        self.roots();
        self.cache_folder();
        self.pem_files();
        let mut problems = Problems::new(self.files.clone());
        problems.extend(self.problems);
        problems.sort();
        let mut draft = self.draft;
        for discover in draft.config.upstreams.iter_mut().filter_map(|upstream| upstream.discover.as_mut()) {
            let Discover::File(path) = &mut discover.value else { continue };
            let by = self.files.get(discover.at.file as usize).map(|file| Path::new(&file.name));
            if let Some(folder) = by.and_then(Path::parent) {
                path.path = folder.join(&path.path);
            }
        }
        // The store's file is relative to the main one.
        if let (Some(store), Some(main)) = (&mut draft.config.store, self.files.first()) {
            let folder = Path::new(&main.name).parent().unwrap_or(Path::new(""));
            store.path = folder.join(&store.path);
        }
        if let (Some(cache), Some(main)) =
            (draft.config.etcd.as_mut().and_then(|etcd| etcd.cache.as_mut()), self.files.first())
        {
            *cache = Path::new(&main.name).parent().unwrap_or(Path::new("")).join(&*cache);
        }
        let state = draft.config.controller.as_mut().and_then(|controller| controller.cache.as_mut());
        if let (Some(cache), Some(main)) = (state, self.files.first()) {
            *cache = Path::new(&main.name).parent().unwrap_or(Path::new("")).join(&*cache);
        }
        let purges = draft.config.fleet.as_mut().and_then(|fleet| fleet.purges.as_mut());
        if let (Some(purges), Some(main)) = (purges, self.files.first()) {
            *purges = Path::new(&main.name).parent().unwrap_or(Path::new("")).join(&*purges);
        }
        let kubeconfig = draft.config.kubernetes.as_mut().map(|kubernetes| &mut kubernetes.kubeconfig);
        if let (Some(Kubeconfig::File(path)), Some(main)) = (kubeconfig, self.files.first()) {
            *path = Path::new(&main.name).parent().unwrap_or(Path::new("")).join(&*path);
        }
        let audit_log = draft.config.admin.as_mut().and_then(|admin| admin.audit_log.as_mut());
        if let (Some(path), Some(main)) = (audit_log, self.files.first()) {
            let folder = Path::new(&main.name).parent().unwrap_or(Path::new(""));
            *path = folder.join(&*path);
        }
        if let Some(main) = self.files.first() {
            let folder = Path::new(&main.name).parent().unwrap_or(Path::new(""));
            draft.config.document_files.iter_mut().for_each(|path| *path = folder.join(&*path));
        }
        draft.config.files = self.files;
        if !problems.has_errors() {
            let counted = |mut layout: Layout| layout.count(&draft.config.routes).map(|()| layout);
            let layout = self.layout.and_then(counted);
            return FullRead { draft: Some(draft), layout, warnings, partial: None, problems };
        }
        let Draft { config, unreliable_routes, is_incomplete, paths_unreliable, .. } = draft;
        let sound =
            config.routes.into_iter().enumerate().filter(|(index, _)| !unreliable_routes.contains(index));
        let routes = sound.map(|(_, route)| route).collect();
        let partial =
            (!is_incomplete && !paths_unreliable).then_some(PartialConfig { routes, paths: config.paths });
        FullRead { draft: None, layout: None, warnings, partial, problems }
    }
}

impl Loader<'_> {
    /// Resolves the roots of static files, relative to the file that names each, and warns of those that are not
    /// directories.
    fn roots(&mut self) {
        let mut roots = Vec::new();
        for route in &mut self.draft.config.routes {
            let Action::Files(site) = &mut route.action else { continue };
            let by = self.files.get(site.root.at.file as usize).map(|file| Path::new(&file.name));
            if let Some(folder) = by.and_then(Path::parent) {
                site.root.value = folder.join(&site.root.value);
            }
            // Several matches under one route have the same root.
            if roots.last() != Some(&site.root) {
                roots.push(site.root.clone());
            }
        }
        self.problems.extend(check_roots(roots));
    }

    /// Resolves the directory of the cache's disk tier, relative to the file that names it, and checks it.
    fn cache_folder(&mut self) {
        let Some(disk) = &mut self.draft.config.cache.disk else { return };
        let by = self.files.get(disk.path.at.file as usize).map(|file| Path::new(&file.name));
        if let Some(folder) = by.and_then(Path::parent) {
            disk.path.value = folder.join(&disk.path.value);
        }
        let (folder, at) = (disk.path.clone(), disk.path.at);
        let checked = run_with_timeout(move || folder_problem(&folder));
        let problem = checked.unwrap_or_else(|stalled| Some(Problem::warning(at, stalled.to_string())));
        self.problems.extend(problem);
    }

    /// Resolves the paths of certificate and key files, relative to the file that names each, and reads the
    /// files.
    fn pem_files(&mut self) {
        for pem in pem_files(&mut self.draft.config) {
            let by = self.files.get(pem.at.file as usize).map(|file| Path::new(&file.name));
            if let (Some(folder), Some(path)) = (by.and_then(Path::parent), &mut pem.path) {
                *path = folder.join(&*path);
            }
        }
        read_pem_files(&mut self.draft.config, &mut self.problems);
    }
}

/// Returns a warning for each root of static files that is not a directory.
pub(crate) fn check_roots(roots: Vec<Spanned<PathBuf>>) -> Vec<Problem> {
    let Some(at) = roots.first().map(|root| root.at) else { return Vec::new() };
    let checked = run_with_timeout(move || roots.iter().filter_map(root_warning).collect());
    checked.unwrap_or_else(|stalled| vec![Problem::warning(at, stalled.to_string())])
}

/// Reads the certificate and key files.
pub(crate) fn read_pem_files(config: &mut Config, problems: &mut Vec<Problem>) {
    let mut paths = Vec::new();
    let mut reported: HashSet<At> = HashSet::new();
    for pem in pem_files(config) {
        let Some(path) = &pem.path else { continue };
        paths.push(path.clone());
        let file = NamedFile { path: path.clone(), scope: pem.scope.clone() };
        match file_access::read(&file, PEM_MAX_BYTES) {
            Ok(bytes) => pem.bytes = PemBytes(bytes),
            Err(reason) => {
                let problem = Problem::error(pem.at, format!("cannot read {}: {reason}", pem.shown));
                // A file may be named twice, and one position may name both a certificate and its key.
                if reported.insert(pem.at) {
                    problems.push(problem);
                }
            }
        }
    }
    config.pem_files = paths;
}

/// Returns the current content of a PEM file. The outer `None` means that the text is inline; the inner one,
/// that the file cannot be read.
pub(crate) fn read_pem(pem: &PemFile) -> Option<Option<PemBytes>> {
    let file = NamedFile { path: pem.path.clone()?, scope: pem.scope.clone() };
    Some(file_access::read(&file, PEM_MAX_BYTES).ok().map(PemBytes))
}

/// Reads a file as text.
///
/// # Errors
/// Returns the reason as a phrase for a message.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let bytes =
        file_access::read(&NamedFile::from(path), FILE_MAX_BYTES).map_err(|unread| unread.to_string())?;
    decode_text(bytes)
}

/// Works like [`read`], but also accepts a pipe and blocks until its other end closes.
fn read_any(path: &Path) -> Result<String, String> {
    let is_pipe = std::fs::metadata(path).is_ok_and(|data| data.file_type().is_fifo());
    if !is_pipe {
        return read(path);
    }
    let reason = |error: std::io::Error| ReadError::from(error).to_string();
    let mut bytes = Vec::new();
    let limit = u64::try_from(FILE_MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path).map_err(reason)?.take(limit).read_to_end(&mut bytes).map_err(reason)?;
    if bytes.len() > FILE_MAX_BYTES {
        return Err(format!("it is larger than {} MiB", FILE_MAX_BYTES >> 20));
    }
    decode_text(bytes)
}

/// Converts bytes to text. Anything but UTF-8 is an error that names the line.
pub(crate) fn decode_text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8")
    })
}

/// Resolves symbolic links; `None` if that fails or the file system does not answer in time.
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    let path = path.to_owned();
    run_with_timeout(move || path.canonicalize()).ok()?.ok()
}
