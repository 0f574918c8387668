//! Follows `include`: other files, by path or pattern, relative to the file that names them.

use std::path::{Path, PathBuf};

use glob::Pattern;

use crate::file_access::run_with_timeout;
use crate::load::{Loader, real_path};
use crate::problem::Problem;
use crate::read::Include;

/// Maximum number of files of one configuration.
const FILES_MAX: usize = 10_000;
/// Maximum depth of includes within includes.
const DEPTH_MAX: usize = 16;

/// Reads the files that one entry of `include` names, in the order of their paths.
pub(crate) fn load_includes(loader: &mut Loader<'_>, from: &Path, include: &Include) {
    let at = include.at;
    let text = include.pattern.as_str();
    let base = from.parent().unwrap_or(Path::new(""));
    if loader.open.len() >= DEPTH_MAX {
        loader.report_unreadable(Problem::error(
            at,
            format!("files include each other more than {DEPTH_MAX} levels deep"),
        ));
        return;
    }
    if !text.contains(['*', '?', '[']) {
        load_one(loader, &base.join(text), include, true);
        return;
    }
    // The folder's own name may contain pattern characters. An absolute pattern replaces the folder.
    let full = if Path::new(text).is_absolute() || base.as_os_str().is_empty() {
        text.to_owned()
    } else {
        format!("{}/{text}", Pattern::escape(&base.display().to_string()))
    };
    let matches = match run_with_timeout(move || matching_paths(&full)) {
        Ok(Ok(matches)) => matches,
        Err(stalled) => {
            let message = format!("cannot look into a folder of {}: {stalled}", include.shown);
            loader.report_unreadable(Problem::error(at, message));
            return;
        }
        Ok(Err(error)) => {
            // The pattern may come from a variable, so the message repeats only the reason.
            loader.report_unreadable(Problem::error(
                at,
                format!("this is not a pattern of paths: {}", error.msg),
            ));
            return;
        }
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for found in matches {
        match found {
            Ok(path) => paths.push(path),
            Err(reason) => {
                let message = format!("cannot look into a folder of {}: {reason}", include.shown);
                loader.report_unreadable(Problem::error(at, message));
            }
        }
    }
    paths.sort();
    if paths.is_empty() {
        loader.problems.push(Problem::warning(at, "this pattern matches no file"));
    }
    for path in paths {
        load_one(loader, &path, include, false);
    }
}

/// Files that a pattern matches, and the reasons why folders could not be read.
type MatchingPaths = Vec<Result<PathBuf, String>>;

/// Returns the files that a pattern matches, without folders.
fn matching_paths(pattern: &str) -> Result<MatchingPaths, glob::PatternError> {
    let found = glob::glob(pattern)?;
    let file = |found: glob::GlobResult| match found {
        Ok(path) if path.is_dir() => None,
        Ok(path) => Some(Ok(path)),
        Err(error) => Some(Err(error.error().to_string())),
    };
    Ok(found.filter_map(file).collect())
}

fn load_one(loader: &mut Loader<'_>, path: &Path, include: &Include, by_name: bool) {
    let at = include.at;
    if loader.files.len() >= FILES_MAX {
        loader.report_unreadable(Problem::error(at, format!("more than {FILES_MAX} files")));
        return;
    }
    let canonical = real_path(path);
    if let Some(canonical) = &canonical {
        if let Some(start) = loader.open.iter().position(|open| open == canonical) {
            // It is common and harmless that `include: "*.yaml"` matches its own file.
            if by_name {
                let circle: Vec<String> = loader.open[start..]
                    .iter()
                    .chain([canonical])
                    .map(|path| format!("`{}`", short(path)))
                    .collect();
                let message = format!("files include each other in a circle: {}", circle.join(" -> "));
                loader.problems.push(Problem::error(at, message));
            }
            return;
        }
        if loader.seen.contains(canonical) {
            let message = if by_name {
                format!("{} was included before", include.shown)
            } else {
                format!("`{}`, which this pattern matches, was included before", short(path))
            };
            loader.problems.push(Problem::warning(at, message).help("it is read once"));
            return;
        }
    }
    loader.file(path, canonical, Some(include));
}

fn short(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
