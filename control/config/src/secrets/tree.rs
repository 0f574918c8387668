//! Finds the secrets in a parsed text: walks its tree in parallel with the spec table, which says which keys hold
//! secrets.

use std::collections::HashMap;
use std::ops::Range;

use zeroize::Zeroizing;

use super::names::{CREDENTIAL_SETTINGS, is_secret_name, plain, user_info};
use crate::credentials::{MASK, holds_private_key, is_secret_of_plugin, is_variable};
use crate::parse::ParsedText;
use crate::policy_kinds::policies_section;
use crate::position::{At, lines};
use crate::section::Section;
use crate::sections::route::RouteKeys;
use crate::sections::{ConsumerSpec, NAMED_CERTIFICATE_VALUE, Upstream};
use crate::spec::{Conceal, ROOT, SectionSpec, Shape};
use crate::suggest;
use crate::tree::{MappingEntry, Node, NodeKind, Scalar};

/// The secret values of a tree.
#[derive(Default)]
pub(super) struct SecretValues {
    /// Columns, from 0 and in characters, of every line that holds part of a secret.
    pub parts: HashMap<u32, Vec<Range<usize>>>,
    /// The texts of the values that start at a line and column.
    pub texts: HashMap<(u32, usize), Zeroizing<String>>,
}

/// How much of a value is secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Secret {
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
pub(super) struct Context {
    /// The mappings that the value can be.
    sections: Vec<&'static SectionSpec>,
    /// The values of the mapping with the user's own keys that it can be.
    values: Vec<&'static Shape>,
    pub secret: Secret,
    is_root: bool,
    /// Whether a single value here is in the place of a mapping that would hold a secret.
    displaced: bool,
    /// Whether the value may belong to a `Cookie` field. The configuration also has keys of that name, for the names of
    /// cookies, which have no `=`.
    is_cookie: bool,
    /// Whether the keys are names of plugins.
    names_plugins: bool,
    plugin: Option<String>,
}

impl Context {
    /// The root of a file. A text may also be a document of the admin API.
    pub fn root() -> Self {
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
    pub fn is_among_secrets(&self) -> bool {
        let mut inner = Self::default();
        self.values.iter().for_each(|value| inner.shape(value));
        self.sections.iter().chain(&inner.sections).any(|section| holds_secrets(section))
    }

    /// Returns the context of the value under a key.
    pub fn under(&self, name: &str) -> Self {
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
pub(super) struct Finder<'t> {
    /// Characters of each line, and of its line break.
    lengths: Vec<(usize, usize)>,
    /// Entries of which an earlier one of the same mapping has the key, by the position of that key.
    dropped: HashMap<At, Vec<&'t Node>>,
    pub found: SecretValues,
}

impl<'t> Finder<'t> {
    pub fn new(text: &str, parsed: &'t ParsedText) -> Self {
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
        Self { lengths, dropped, found: SecretValues::default() }
    }

    pub fn node(&mut self, node: &Node, context: &Context) {
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
