//! Properties of whole hosts, which come from all their Ingresses: expressions, further names, canaries, client
//! certificates.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::{Translation, reference};
use super::Served;
use crate::object::Kind;
use crate::resources::{IngressBackend, IngressPath};

/// Reasons why a canary gets no requests.
const SECOND: &str = "an older Ingress is the canary of this path";
const ALONE: &str = "no other Ingress has this host and path with this type of path";

/// A host, a path and its type.
type Place = (String, String, String);

/// Properties of whole hosts.
pub struct Hosts<'a> {
    /// The ranks of the paths of hosts whose paths are regular expressions: of two that match, the smaller wins.
    ranks: HashMap<String, BTreeMap<String, usize>>,
    /// Further names, by host.
    aliases: BTreeMap<String, BTreeSet<String>>,
    /// The hosts of rules.
    names: BTreeSet<String>,
    /// The hosts whose TLS connections pass through.
    passed: BTreeSet<String>,
    /// The hosts with a path that takes every request.
    roots: BTreeSet<String>,
    /// The hosts of which no request may be served, each with the reason.
    denied: BTreeMap<String, String>,
    canaries: HashMap<Place, (&'a Served<'a>, &'a IngressBackend)>,
}

impl<'a> Hosts<'a> {
    /// Collects the properties of hosts, and notes canaries that get no requests. Of two Ingresses the older one
    /// wins.
    pub fn new(all: &'a [Served<'a>], translation: &mut Translation) -> Self {
        let mut out = Self {
            ranks: HashMap::new(),
            aliases: BTreeMap::new(),
            names: BTreeSet::new(),
            passed: BTreeSet::new(),
            roots: BTreeSet::new(),
            denied: BTreeMap::new(),
            canaries: HashMap::new(),
        };
        let mut paths: HashMap<String, Vec<&str>> = HashMap::new();
        let mut served: HashSet<Place> = HashSet::new();
        let mut unused: Vec<(&Served<'_>, &str, &str)> = Vec::new();
        for one in all {
            for rule in &one.spec.rules {
                let host = rule.host.as_deref().unwrap_or_default().to_ascii_lowercase();
                for path in rule.http.iter().flat_map(|http| &http.paths) {
                    if one.wanted.canary.is_some() {
                        match out.canaries.entry(place(&host, path)) {
                            Entry::Vacant(free) => drop(free.insert((one, &path.backend))),
                            Entry::Occupied(_) => unused.push((one, path_text(path), SECOND)),
                        }
                        continue;
                    }
                    let text = path_text(path);
                    served.insert(place(&host, path));
                    let is_rewritten = one.wanted.rewrite.as_ref().is_some_and(|target| target != text);
                    if one.wanted.is_regex || is_rewritten {
                        out.ranks.entry(host.clone()).or_default();
                    }
                    paths.entry(host.clone()).or_default().push(text);
                    if text == "/" && path.path_type != "Exact" {
                        out.roots.insert(host.clone());
                    }
                }
                if one.wanted.canary.is_some() {
                    continue;
                }
                // ingress-nginx asks every client of the host for a certificate, also for paths of other Ingresses.
                if one.wanted.verifies_clients {
                    let why =
                        || format!("the Ingress {} verifies client certificates", one.meta.object_name());
                    out.denied.entry(host.clone()).or_insert_with(why);
                }
                if one.wanted.passes_tls && !host.is_empty() {
                    out.passed.insert(host.clone());
                }
                if !one.wanted.aliases.is_empty() {
                    let own = || one.wanted.aliases.iter().cloned().collect();
                    out.aliases.entry(host.clone()).or_insert_with(own);
                }
                out.names.insert(host);
            }
        }
        for (place, (one, _)) in out.canaries.iter().filter(|(place, _)| !served.contains(*place)) {
            unused.push((one, &place.1, ALONE));
        }
        for (one, path, why) in unused {
            let owner = reference(Kind::Ingress, &one.meta.object_name());
            translation.note(owner, format!("the canary of {path} gets no requests: {why}"));
        }
        for (host, ranks) in &mut out.ranks {
            let mut paths = paths.remove(host).unwrap_or_default();
            // The longest first; of two of one length, the greater text.
            paths.sort_by(|one, two| two.len().cmp(&one.len()).then_with(|| two.cmp(one)));
            paths.dedup();
            ranks.extend(paths.into_iter().enumerate().map(|(rank, path)| (path.to_owned(), rank)));
        }
        // A name that has rules of its own, or that an earlier host has, is no alias.
        let mut known = out.names.clone();
        for aliases in out.aliases.values_mut() {
            aliases.retain(|alias| known.insert(alias.clone()));
        }
        out
    }

    /// Returns the rank of a path, if the paths of its host are regular expressions.
    pub fn rank(&self, host: &str, path: &str) -> Option<usize> {
        self.ranks.get(host)?.get(path).copied()
    }

    /// Returns a host and its further names.
    pub fn with_aliases<'h>(&'h self, host: &'h str) -> impl Iterator<Item = &'h str> {
        std::iter::once(host).chain(self.aliases.get(host).into_iter().flatten().map(String::as_str))
    }

    /// Returns whether a host has rules, or is a further name of such a host.
    pub fn is_known(&self, host: &str) -> bool {
        self.names.contains(host) || self.aliases.values().any(|aliases| aliases.contains(host))
    }

    /// Returns whether a path of a host takes every request that no other path takes.
    pub fn has_root(&self, host: &str) -> bool {
        self.roots.contains(host)
    }

    /// Returns why no request for a host may be served.
    pub fn denied(&self, host: &str) -> Option<&str> {
        self.denied.get(host).map(String::as_str)
    }

    /// Returns whether TLS connections to a host pass through.
    pub fn passes_tls(&self, host: &str) -> bool {
        self.passed.contains(host)
    }

    /// Returns the canary of a path, with its backend.
    pub fn canary(&self, host: &str, path: &IngressPath) -> Option<(&'a Served<'a>, &'a IngressBackend)> {
        self.canaries.get(&place(host, path)).copied()
    }
}

fn place(host: &str, path: &IngressPath) -> Place {
    (host.to_owned(), path_text(path).to_owned(), path.path_type.clone())
}

/// Returns the text of a path; without one it is the root.
pub fn path_text(path: &IngressPath) -> &str {
    path.path.as_deref().filter(|text| !text.is_empty()).unwrap_or("/")
}
