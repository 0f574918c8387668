//! Finds the secret values in the text of a configuration, so that a rendered problem does not show them.
//!
//! The renderer calls this module with a file that a problem refers to. The positions come from the parsed
//! tree: the spec table tells which keys hold secrets, and the names of such keys count wherever the table
//! does not know the mapping. After a syntax error there is no tree; from there on, lines are searched for the
//! names of such keys, and rather too much is masked than too little.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use zeroize::Zeroizing;

use crate::credentials::{CREDENTIAL_KEYS, MASK, holds_private_key, is_secret_of_plugin, is_variable};
use crate::parse::{ParsedText, parse};
use crate::policy_kinds::policies_section;
use crate::position::{At, SourceFile, lines};
use crate::problem::Problem;
use crate::section::Section;
use crate::sections::route::RouteKeys;
use crate::sections::{ConsumerSpec, NAMED_CERTIFICATE_VALUE, Upstream};
use crate::spec::{Conceal, ROOT, SectionSpec, Shape, sections};
use crate::suggest;
use crate::tree::{MappingEntry, Node, NodeKind, Scalar};

/// The text shown in place of a secret, whatever its length.
pub(crate) const STARS: &str = "***";
/// How many lines are searched backwards for the key that an unparsed line belongs to.
const LOOK_BACK: usize = 200;

/// Names of secret keys, for mappings that the spec table does not describe. Names that another section uses
/// for something else are left out.
static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let keys = || sections().into_iter().flat_map(|section| section.keys);
    let concealed = keys().filter(|key| key.conceal == Conceal::Always);
    let names = concealed.flat_map(|key| key.aliases.iter().copied().chain([key.name]));
    let more = ["passwd", "pwd", "pass", "passphrase", "private_key", "credentials"];
    names.chain(more).filter(|name| !OTHER_NAMES.contains(name)).map(plain).collect()
});

/// Names of the keys that may hold something else than a secret.
static OTHER_NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let keys = sections().into_iter().flat_map(|section| section.keys);
    keys.filter(|key| key.conceal != Conceal::Always).map(|key| key.name).collect()
});

fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// Returns whether a key of this name holds a secret wherever it is written.
fn is_secret_name(name: &str) -> bool {
    let name = plain(name);
    NAMES.contains(&name)
        || CREDENTIAL_KEYS.iter().any(|known| plain(known) == name)
        || ["_password", "_secret", "_token", "_api_key"].iter().any(|end| name.ends_with(end))
}

/// Policies and settings with credentials. A single value in place of one of them, such as `jwt: KEY`, is a mistake that
/// may show a credential.
const CREDENTIAL_SETTINGS: [&str; 12] = [
    "api_key",
    "apikey",
    "key_auth",
    "basic",
    "basic_auth",
    "basicauth",
    "auth_basic",
    "jwt",
    "jwt_auth",
    "hmac",
    "hmac_auth",
    "tokens",
];

/// Returns the part of a URL in which a user and a password stand, if there is one: `user:password` between
/// a slash and an `@`.
fn user_info(text: &str) -> Option<Range<usize>> {
    let at = text.rfind('@')?;
    let blank = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    let word =
        text[..at].char_indices().rfind(|(_, c)| blank(*c)).map_or(0, |(blank, c)| blank + c.len_utf8());
    let start = word + text[word..at].find('/')?;
    let start = start + text[start..at].bytes().take_while(|byte| *byte == b'/').count();
    text[start..at].contains(':').then_some(start..at)
}

/// The secrets of files, found when they are first needed.
#[derive(Default)]
pub(crate) struct Masks(Mutex<HashMap<u32, Arc<Secrets>>>);

/// A clone may get other files, so it finds their secrets itself.
impl Clone for Masks {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Masks")
    }
}

impl Masks {
    /// Returns the secrets of a file; `None` if there is no such file.
    pub fn of(&self, files: &[SourceFile], index: u32) -> Option<Arc<Secrets>> {
        let file = files.get(index as usize)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(known.entry(index).or_insert_with(|| Arc::new(Secrets::of(&file.text))).clone())
    }
}

/// The secret values of one file.
#[derive(Default)]
pub(crate) struct Secrets {
    /// Columns, from 0 and in characters, of every line that holds part of a secret.
    parts: HashMap<u32, Vec<Range<usize>>>,
    /// The texts of the values that start at a line and column.
    texts: HashMap<(u32, usize), Zeroizing<String>>,
    /// The line from which on the text was not parsed.
    unread: Option<u32>,
    /// The position from which on everything is secret, because a secret was not parsed to its end.
    open: Option<(u32, usize)>,
    /// The position from which on values are masked, because parsing stopped among secrets.
    near: Option<(u32, usize)>,
}

/// A line with its secrets replaced.
pub(crate) struct Masked {
    pub text: String,
    cuts: Vec<Range<usize>>,
}

impl Masked {
    /// Moves a position to where the same value is in the masked line. A caret under a secret has the length
    /// of the mask.
    pub fn moved(&self, at: At) -> At {
        let start = at.column.saturating_sub(1) as usize;
        let from = self.map(start, false);
        // The end may be after the secret: the parser counts blanks after a closing quote to the value.
        let to = match self.cuts.iter().any(|cut| cut.contains(&start)) {
            true => from + STARS.len(),
            false => self.map(start + at.length.max(1) as usize, true),
        };
        let to_u32 = |n: usize| u32::try_from(n).unwrap_or(u32::MAX - 1);
        At { column: to_u32(from) + 1, length: to_u32(to.saturating_sub(from)).max(1), ..at }
    }

    /// Maps a column, or the end of a range of columns.
    fn map(&self, column: usize, is_end: bool) -> usize {
        let (mut removed, mut added) = (0, 0);
        for cut in &self.cuts {
            if column < cut.start || is_end && column == cut.start {
                break;
            }
            if column < cut.end || is_end && column == cut.end {
                return cut.start - removed + added + if is_end { STARS.len() } else { 0 };
            }
            removed += cut.len();
            added += STARS.len();
        }
        column - removed + added
    }
}

impl Secrets {
    /// Finds the secrets of a text.
    pub fn of(text: &str) -> Self {
        let parsed = parse(0, text);
        let mut finder = Finder::new(text, &parsed);
        if let Some(root) = &parsed.root {
            finder.node(root, &Context::root());
        }
        for lost in &parsed.lost {
            finder.node(lost, &Context::default());
        }
        let mut found = finder.found;
        for ranges in found.parts.values_mut() {
            *ranges = merged(std::mem::take(ranges));
        }
        if !parsed.complete {
            found.unread = Some(u32::try_from(parsed.read_to.line.max(1)).unwrap_or(u32::MAX));
            let place = (u32::try_from(parsed.read_to.line).unwrap_or(u32::MAX), parsed.read_to.column);
            let mut context = Context::root();
            for key in parsed.pending.iter().flatten() {
                context = context.under(key);
                if context.is_among_secrets() {
                    found.near = Some(place);
                }
            }
            if context.secret != Secret::No {
                found.open = Some(place);
            }
        }
        found
    }

    /// Masks a line; `None` if it holds no secret. `page` has every line of the text, `number` counts from 1.
    pub fn mask(&self, page: &[&str], number: u32) -> Option<Masked> {
        let line = *page.get((number as usize).checked_sub(1)?)?;
        let mut cuts = self.parts.get(&number).cloned().unwrap_or_default();
        let unread = self.unread.is_some_and(|from| number >= from);
        let open = self.open.filter(|(from, _)| number >= *from);
        let near = self.near.filter(|(from, _)| number >= *from);
        if cuts.is_empty() && !unread && open.or(near).is_none() {
            return None;
        }
        let chars: Vec<char> = line.chars().collect();
        if let Some((from, column)) = open.or(near) {
            let start = match number == from {
                true => column,
                // The key of the line stays.
                false if open.is_none() => value_start(&chars),
                false => 0,
            };
            let mark = |c: &char| c.is_whitespace() || *c == ':';
            let skipped = chars.iter().skip(start).take_while(|c| mark(c)).count();
            cuts.push(start + skipped..chars.len());
        }
        if unread {
            // The rest of a line that starts with a secret may belong to it.
            let first = cuts.iter().map(|cut| cut.start).min();
            cuts.extend(first.map(|first| first..chars.len()));
            cuts.extend(unparsed(page, number, &chars));
        }
        let blank = chars.iter().take_while(|c| c.is_whitespace()).count();
        for cut in &mut cuts {
            // The indentation of a further line of a value is no part of it.
            cut.start = cut.start.max(blank.min(cut.end));
            cut.end = cut.end.min(chars.len());
            // The parser counts blanks after a closing quote to the value.
            while cut.end > cut.start && chars[cut.end - 1].is_whitespace() {
                cut.end -= 1;
            }
        }
        cuts.retain(|cut| !cut.is_empty());
        let cuts = merged(cuts);
        if cuts.is_empty() {
            return None;
        }
        let mut text = String::with_capacity(line.len());
        let mut done = 0;
        for cut in &cuts {
            text.extend(&chars[done..cut.start]);
            text.push_str(STARS);
            done = cut.end;
        }
        text.extend(&chars[done..]);
        Some(Masked { text, cuts })
    }

    /// Removes a secret from the words of a problem that was found at it. `line` is the problem's line.
    pub fn conceal(&self, masked: &Masked, line: &str, problem: &mut Problem) {
        let at = problem.at;
        let start = at.column.saturating_sub(1) as usize;
        let end = start.saturating_add(at.length.max(1) as usize);
        let mut known: Vec<Zeroizing<String>> = Vec::new();
        for cut in masked.cuts.iter().filter(|cut| cut.start < end && start < cut.end) {
            known.push(Zeroizing::new(line.chars().skip(cut.start).take(cut.len()).collect()));
            known.extend(self.texts.get(&(at.line, cut.start)).cloned());
        }
        if known.is_empty() {
            return;
        }
        let words = problem.help.iter_mut().chain([&mut problem.message]);
        for text in words {
            *text = concealed(text, &known);
        }
    }
}

/// Replaces the parts in backquotes that repeat a secret or a part of it.
fn concealed(text: &str, known: &[Zeroizing<String>]) -> String {
    let core = |text: &str| text.trim_matches(['"', '\'', '*', '&', '…']).to_owned();
    let known: Vec<Zeroizing<String>> = known.iter().map(|text| Zeroizing::new(core(text))).collect();
    let repeats = |part: &str| {
        // `base64:` names a form and not a value.
        let part = core(part);
        part.chars().count() > 1
            && !part.ends_with([':', '/'])
            && known.iter().any(|text| text.contains(&part) || text.len() > 3 && part.contains(text.as_str()))
    };
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(i, part)| if i % 2 == 1 && repeats(part) { STARS } else { part });
    parts.collect::<Vec<_>>().join("`")
}

/// Sorts ranges and joins ranges that touch.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut out: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// How much of a value is secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Secret {
    #[default]
    No,
    /// A URL that contains a user or a password.
    Url,
    /// The values of a mapping, and not its keys.
    Values,
    /// Everything.
    Whole,
}

/// The entry of the spec table for a value.
#[derive(Clone, Default)]
struct Context {
    /// The mappings that the value can be.
    sections: Vec<&'static SectionSpec>,
    /// The values of the mapping with the user's own keys that it can be.
    values: Vec<&'static Shape>,
    secret: Secret,
    is_root: bool,
    /// Whether a single value here is in the place of a mapping that would hold a secret.
    displaced: bool,
    /// Whether the value may be that of a `Cookie` field. The configuration also has keys of that name, for the names
    /// of cookies, which have no `=`.
    is_cookie: bool,
    /// Whether the keys are names of plugins.
    names_plugins: bool,
    plugin: Option<String>,
}

impl Context {
    /// The root of a file. A text may also be a document of the admin API.
    fn root() -> Self {
        let mut root = Self { is_root: true, ..Self::default() };
        root.sections = vec![ROOT, RouteKeys::SPEC, Upstream::SPEC, ConsumerSpec::SPEC, policies_section()];
        root.shape(&NAMED_CERTIFICATE_VALUE);
        root
    }

    fn shape(&mut self, shape: &'static Shape) {
        match shape {
            Shape::Section(section) => self.sections.push(section),
            Shape::Registered(section) => self.sections.push(section()),
            Shape::OneOrMany(inner) | Shape::ListOf(inner) => self.shape(inner),
            Shape::AnyOf(shapes) => shapes.iter().for_each(|shape| self.shape(shape)),
            Shape::MapOf(inner) => self.values.push(inner),
            _ => {}
        }
    }

    /// Returns whether secrets are written directly in this mapping, or in the values of its keys.
    fn is_among_secrets(&self) -> bool {
        let mut inner = Self::default();
        self.values.iter().for_each(|value| inner.shape(value));
        self.sections.iter().chain(&inner.sections).any(|section| holds_secrets(section))
    }

    /// Returns the context of the value under a key.
    fn under(&self, name: &str) -> Self {
        let mut out = Self { plugin: self.plugin.clone(), ..Self::default() };
        if matches!(self.secret, Secret::Whole | Secret::Values) {
            out.secret = Secret::Whole;
            return out;
        }
        if name == "<<" {
            return self.clone();
        }
        if self.is_root && name.starts_with("x-") {
            return out;
        }
        if self.names_plugins {
            out.plugin = Some(name.to_owned());
            return out;
        }
        let named = |section: &&'static SectionSpec| section.keys.iter().find(|key| key.name == name);
        let mut keys: Vec<_> = self.sections.iter().filter_map(named).collect();
        for value in &self.values {
            out.shape(value);
        }
        // A name that the user chose for a resource says nothing of a secret. A condition on a field is no resource.
        let is_resource = out.sections.iter().any(|section| section.name != "condition");
        out.displaced = out.sections.iter().any(|section| holds_secrets(section))
            || !is_resource && CREDENTIAL_SETTINGS.contains(&&*plain(name));
        out.is_cookie = matches!(&*plain(name), "cookie" | "set_cookie");
        if keys.is_empty() && !is_resource {
            let meant = |section: &&'static SectionSpec| {
                let near = suggest::key(name, section)?;
                section.keys.iter().find(|key| key.name == near)
            };
            keys = self.sections.iter().filter_map(meant).collect();
            let of_plugin = self.plugin.as_ref().is_some_and(|plugin| is_secret_of_plugin(plugin, name));
            // In a mapping of credentials, an unknown key may hold one of another gateway's form.
            let of_credentials = |section: &&'static SectionSpec| {
                holds_secrets(section)
                    || matches!(section.name, "basic_policy" | "api_key_policy" | "hmac_policy")
            };
            let odd = keys.is_empty() && !self.is_root && self.sections.iter().any(of_credentials);
            if is_secret_name(name) || of_plugin || odd {
                out.secret = Secret::Whole;
            }
        }
        for key in keys {
            out.shape(&key.shape);
            out.names_plugins |=
                key.name == "plugins" && self.sections.iter().any(|s| s.name == policies_section().name);
            match key.conceal {
                Conceal::Never => {}
                Conceal::Credentials if out.secret == Secret::No => out.secret = Secret::Url,
                Conceal::Credentials => {}
                Conceal::Always => out.secret = Secret::Whole,
            }
        }
        if out.secret == Secret::Whole && !out.values.is_empty() {
            out.secret = Secret::Values;
        }
        out
    }
}

/// Returns whether a key of the section is a secret. Header fields are left out: most hold none.
fn holds_secrets(section: &SectionSpec) -> bool {
    section.keys.iter().any(|key| key.conceal == Conceal::Always && key.name != "headers")
}

/// Walks a tree and notes the secrets.
struct Finder<'t> {
    /// Characters of each line, and of its line break.
    lengths: Vec<(usize, usize)>,
    /// Entries of which an earlier one of the same mapping has the key, by the position of that key.
    dropped: HashMap<At, Vec<&'t Node>>,
    found: Secrets,
}

impl<'t> Finder<'t> {
    fn new(text: &str, parsed: &'t ParsedText) -> Self {
        let mut lengths = Vec::new();
        // `lines` leaves out one byte order mark; a second one is text.
        let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        for line in lines(text) {
            rest = &rest[line.len()..];
            let end = if rest.starts_with("\r\n") { 2 } else { usize::from(!rest.is_empty()) };
            rest = &rest[end..];
            lengths.push((line.chars().count(), end));
        }
        let mut dropped: HashMap<At, Vec<&Node>> = HashMap::new();
        for (at, entry) in &parsed.dropped {
            dropped.entry(*at).or_default().push(&entry.value);
        }
        Self { lengths, dropped, found: Secrets::default() }
    }

    fn node(&mut self, node: &Node, context: &Context) {
        match &node.kind {
            NodeKind::Scalar(scalar) => self.scalar(node.at, scalar, context),
            // For example an alias without an anchor: a password that begins with `*`.
            NodeKind::Invalid if context.secret != Secret::No => self.cover(node.at, None),
            NodeKind::Invalid => {}
            NodeKind::List(items) => {
                let mut inner = context.clone();
                if inner.secret == Secret::Values {
                    inner.secret = Secret::Whole;
                }
                items.iter().for_each(|item| self.node(item, &inner));
            }
            NodeKind::Map(entries) => entries.iter().for_each(|entry| self.entry(entry, context)),
        }
    }

    fn entry(&mut self, entry: &MappingEntry, context: &Context) {
        // `password:x` without a blank is a key.
        let is_pair = entry.key.split_once([':', '=']).is_some_and(|(name, _)| is_secret_name(name));
        if context.secret == Secret::Whole || is_pair {
            self.cover(entry.at, Some(&entry.key));
        }
        let inner = context.under(&entry.key);
        self.node(&entry.value, &inner);
        for twin in self.dropped.remove(&entry.at).unwrap_or_default() {
            self.node(twin, &inner);
        }
    }

    fn scalar(&mut self, at: At, scalar: &Scalar, context: &Context) {
        let text = scalar.text.as_str();
        if scalar.is_null() || text.is_empty() || text == MASK || is_variable(text) {
            return;
        }
        let is_secret = match context.secret {
            Secret::Whole | Secret::Values => true,
            Secret::Url => text.contains('@') || text.contains("pass"),
            Secret::No if context.is_cookie => text.contains('='),
            Secret::No => context.displaced && scalar.switch().is_none(),
        };
        if is_secret || holds_private_key(text) || user_info(text).is_some() {
            self.cover(at, Some(text));
        }
    }

    /// Notes a value, which may extend over several lines.
    fn cover(&mut self, at: At, text: Option<&str>) {
        let mut column = at.column.saturating_sub(1) as usize;
        if let Some(text) = text {
            self.found.texts.insert((at.line, column), Zeroizing::new(text.to_owned()));
        }
        let mut rest = at.length as usize;
        let mut number = at.line;
        while let Some((length, end)) = self.lengths.get((number as usize).wrapping_sub(1)).copied() {
            let to = length.min(column.saturating_add(rest));
            self.found.parts.entry(number).or_default().push(column..to);
            let gone = length.saturating_sub(column) + end;
            if rest <= gone || end == 0 {
                return;
            }
            rest -= gone;
            number += 1;
            column = 0;
        }
    }
}

/// Returns the columns to mask of a line that was not parsed.
fn unparsed(page: &[&str], number: u32, chars: &[char]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    out.extend(after_secret_name(chars));
    let line: String = chars.iter().collect();
    if let Some(range) = user_info(&line) {
        let column = |at: usize| line[..at].chars().count();
        out.push(column(range.start)..column(range.end));
    }
    if in_private_key(page, number) {
        out.push(0..chars.len());
    }
    if out.is_empty() && is_below_secret_name(page, number) {
        // The key of the line stays, for example the id of an HMAC key.
        out.push(value_start(chars)..chars.len());
    }
    out
}

/// Returns the column after the first key of a line; 0 if it has none.
fn value_start(chars: &[char]) -> usize {
    let colon = chars.windows(2).position(|pair| pair[0] == ':' && pair[1].is_whitespace());
    let start = colon.map_or(0, |colon| colon + 1);
    start + chars.iter().skip(start).take_while(|c| c.is_whitespace()).count()
}

/// Returns the columns after the first key of a line that holds a secret.
fn after_secret_name(chars: &[char]) -> Option<Range<usize>> {
    let in_name = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut start = 0;
    while start < chars.len() {
        if !in_name(&chars[start]) {
            start += 1;
            continue;
        }
        let end = start + chars[start..].iter().take_while(|c| in_name(c)).count();
        let name: String = chars[start..end].iter().collect();
        let mut value =
            end + chars[end..].iter().take_while(|c| c.is_whitespace() || matches!(c, '"' | '\'')).count();
        let is_key = matches!(chars.get(value), Some(':' | '='));
        // A misspelt name of a secret. `user` is near `users`, but a key of its own.
        let near = || {
            !OTHER_NAMES.contains(name.as_str())
                && suggest::nearest(&name, NAMES.iter().map(String::as_str)).is_some()
        };
        if is_key && (is_secret_name(&name) || near()) {
            value += 1;
            value += chars[value..].iter().take_while(|c| c.is_whitespace()).count();
            return Some(value..chars.len());
        }
        start = end;
    }
    None
}

/// Returns whether a line is part of the value of a secret key on a line before it.
fn is_below_secret_name(page: &[&str], number: u32) -> bool {
    let indent = |line: &str| line.chars().take_while(|c| c.is_whitespace()).count();
    let index = (number as usize).saturating_sub(1);
    let Some(line) = page.get(index) else { return false };
    let mut level = indent(line);
    let before = page[..index].iter().rev().take(LOOK_BACK).filter(|line| !line.trim().is_empty());
    for (distance, line) in before.enumerate() {
        let chars: Vec<char> = line.chars().collect();
        if indent(line) < level {
            level = indent(line);
            if after_secret_name(&chars).is_some() {
                return true;
            }
        }
        // The value may be on the line after its key.
        if distance == 0 && after_secret_name(&chars).is_some_and(|rest| rest.is_empty()) {
            return true;
        }
    }
    false
}

/// Returns whether a line is part of a private key in PEM.
fn in_private_key(page: &[&str], number: u32) -> bool {
    let lines = page.get(..number as usize).unwrap_or_default().iter().rev().take(LOOK_BACK);
    for (distance, line) in lines.enumerate() {
        if line.contains("PRIVATE KEY") {
            return line.contains("BEGIN") || distance == 0;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of a text without its secrets.
    fn masked(text: &str) -> Vec<String> {
        let secrets = Secrets::of(text);
        let page = lines(text);
        let line = |index: usize| secrets.mask(&page, index as u32 + 1).map(|masked| masked.text);
        page.iter().enumerate().map(|(index, own)| line(index).unwrap_or_else(|| (*own).to_owned())).collect()
    }

    #[test]
    fn secrets_of_every_form_are_masked() {
        for (text, shown) in [
            ("etcd: {password: a-b-c, user: u}", "etcd: {password: ***, user: u}"),
            ("etcd: {password: \"a\\\"b\" , user: u}", "etcd: {password: *** , user: u}"),
            ("etcd: {password: 'a''b', user: u} # x", "etcd: {password: ***, user: u} # x"),
            (
                "{\"etcd\":{\"password\":\"a\",\"user\":\"u\"}}",
                "{\"etcd\":{\"password\":***,\"user\":\"u\"}}",
            ),
            ("etcd: {password: ${PASSWORD}}", "etcd: {password: ${PASSWORD}}"),
            ("routes: [{jwt: a, basic: on}]", "routes: [{jwt: ***, basic: ***}]"),
            ("policies: {basic: a, hmac: [a], jwt: off}", "policies: {basic: ***, hmac: [***], jwt: off}"),
            ("admin: {tokens: [a]}", "admin: {tokens: [***]}"),
            ("consumers: {jwt: {groups: a}}", "consumers: {jwt: {groups: a}}"),
            (
                "routes: [{match: {headers: {Authorization: a, X-Env: b, x-api-key: {exact: c}}}}]",
                "routes: [{match: {headers: {Authorization: ***, X-Env: b, x-api-key: {***: ***}}}}]",
            ),
            ("upstreams: {authorization: a:1}", "upstreams: {authorization: a:1}"),
            (
                "policies: {headers: {request: {set: {Cookie: a=b}}}, canary: {cookie: b}}",
                "policies: {headers: {request: {set: {Cookie: ***}}}, canary: {cookie: b}}",
            ),
            ("etcd: {password: \"${A}b\"}", "etcd: {password: ***}"),
            ("etcd: {password: 12345}", "etcd: {password: ***}"),
            ("etcd: {password: !!str a}", "etcd: {password: ***}"),
            ("etcd: {password: &a b, user: *a}", "etcd: {password: ***, user: *a}"),
            ("etcd: {pasword: a}", "etcd: {pasword: ***}"),
            ("etcd: {password: [a, {b: c}]}", "etcd: {password: [***, {***: ***}]}"),
            ("\u{feff}etcd: {password: a}", "etcd: {password: ***}"),
            ("upstreams: {token: {endpoints: a:1}}", "upstreams: {token: {endpoints: a:1}}"),
            ("routes: [{to: \"http://u:p@h:1\"}]", "routes: [{to: ***}]"),
            ("routes: [{to: \"http://u@h:1\"}]", "routes: [{to: \"http://u@h:1\"}]"),
            ("x-a: \"\u{2028}//u:p@h\"", "x-a: ***"),
            ("etcd: {password:a, user: u}", "etcd: {***, user: u}"),
            (
                "policies: {plugins: {p: {api-token: a, size: 1}}}",
                "policies: {plugins: {p: {api-token: ***, size: 1}}}",
            ),
            ("x-a: {client_secret: a, size: 1}", "x-a: {client_secret: ***, size: 1}"),
            ("certificates: {a: {key: k.pem}}", "certificates: {a: {key: k.pem}}"),
        ] {
            assert_eq!(masked(text), [shown], "{text}");
        }
    }

    #[test]
    fn secrets_of_several_lines_are_masked_to_their_end() {
        for end in ["\n", "\r\n", "\r"] {
            let text = [
                "consumers:",
                "  ann:",
                "    hmac_keys:",
                "      a: |",
                "        secret",
                "",
                "        secret",
                "      b: 'secret",
                "        secret'",
                "      c: secret",
                "        secret",
                "    groups: x",
            ]
            .join(end);
            let shown = masked(&text);
            let rest: Vec<&str> = shown[3..].iter().map(|line| line.trim_start()).collect();
            assert_eq!(
                rest,
                ["a: |", "***", "", "***", "b: ***", "***", "c: ***", "***", "groups: x"],
                "{end:?}"
            );
        }
    }

    #[test]
    fn after_a_syntax_error_names_tell_what_is_secret() {
        let broken = |lines: &[&str]| masked(&["listen: \"a\" b", lines.join("\n").as_str()].join("\n"));
        for (lines, last) in [
            (&["  password: a"][..], "  password: ***"),
            (&["  \"client_secret\" : \"a"], "  \"client_secret\" : ***"),
            (&["  user: u, pasword: a, b: c"], "  user: u, pasword: ***"),
            (&["  hmac_keys:", "    a: \"b"], "    a: ***"),
            (&["  hmac_keys:", "    - b"], "    ***"),
            (&["\"password\":", "\"a\""], "***"),
            (&["  to: redis://u:p@h:1"], "  to: redis://***@h:1"),
            (&["  key: |", "  -----BEGIN PRIVATE KEY-----", "  MIIE"], "  ***"),
            (&["  listen: 127.0.0.1:80"], "  listen: 127.0.0.1:80"),
        ] {
            assert_eq!(broken(lines).last().map(String::as_str), Some(last), "{lines:?}");
        }
    }

    #[test]
    fn carets_move_with_their_values() {
        let text = "etcd: {password: abcdefgh, user: u, password: i}";
        let secrets = Secrets::of(text);
        let line = secrets.mask(&[text], 1).expect("secrets");
        assert_eq!(line.text, "etcd: {password: ***, user: u, password: ***}");
        let moved = |column, length| {
            let at = line.moved(At { file: 0, line: 1, column, length });
            (at.column, at.length)
        };
        assert_eq!(moved(8, 8), (8, 8), "a key before");
        assert_eq!(moved(18, 8), (18, 3), "a secret");
        assert_eq!(moved(20, 1), (18, 3), "a part of it");
        assert_eq!(moved(28, 4), (23, 4), "a key after it");
        assert_eq!(moved(8, 40), (8, 37), "all");
    }

    #[test]
    fn words_of_a_problem_do_not_repeat_a_secret() {
        let known = [Zeroizing::new("\"swordfish\"".to_owned())];
        for (text, shown) in [
            ("`swordfish` is no `secret`", "`***` is no `secret`"),
            ("`*swordfish` is no `base64:`", "`***` is no `base64:`"),
            ("`sword…` ends in `fish`", "`***` ends in `***`"),
        ] {
            assert_eq!(concealed(text, &known), shown);
        }
    }
}
