//! Reads the values of annotations, and collects remarks about them.

use std::collections::BTreeSet;

use super::super::super::reference;
use super::PREFIX;
use crate::object::{Kind, Meta, ObjectName, Reference};
use crate::objects::Objects;

/// How an annotation is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behaviour {
    /// As ingress-nginx serves it.
    Same,
    /// With a difference.
    Differs,
    /// Not at all.
    Unsupported,
    /// Its value is not valid.
    Invalid,
}

/// A remark about an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The annotation, without its prefix.
    pub annotation: String,
    /// How it is served.
    pub behaviour: Behaviour,
    /// The difference, or what to do instead.
    pub text: String,
}

impl Finding {
    /// Returns whether there is nothing to say.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.behaviour == Behaviour::Same
    }
}

/// Reads the annotations of an Ingress.
pub struct Reader<'a> {
    pub objects: &'a Objects,
    pub meta: &'a Meta,
    pub findings: Vec<Finding>,
    pub references: BTreeSet<Reference>,
}

impl<'a> Reader<'a> {
    pub fn new(objects: &'a Objects, meta: &'a Meta) -> Self {
        Self { objects, meta, findings: Vec::new(), references: BTreeSet::new() }
    }

    /// Reports how an annotation is served. A later report about it takes the place of an earlier one.
    pub fn report(&mut self, annotation: &str, (behaviour, text): (Behaviour, impl Into<String>)) {
        let finding = Finding { annotation: annotation.to_owned(), behaviour, text: text.into() };
        match self.findings.iter_mut().find(|known| known.annotation == annotation) {
            Some(known) => *known = finding,
            None => self.findings.push(finding),
        }
    }

    /// Reports that a value behaves the same here, although not all values do. An absent one needs no report.
    pub fn same(&mut self, annotation: &str) {
        if self.text(annotation).is_some() {
            self.report(annotation, (Behaviour::Same, ""));
        }
    }

    /// Reports that a value is not valid.
    pub fn invalid(&mut self, annotation: &str, why: impl Into<String>) {
        self.report(annotation, (Behaviour::Invalid, why));
    }

    /// Reports that a value behaves differently here.
    pub fn differs(&mut self, annotation: &str, how: impl Into<String>) {
        self.report(annotation, (Behaviour::Differs, how));
    }

    /// Reports that a value is not supported.
    pub fn unsupported(&mut self, annotation: &str, instead: impl Into<String>) {
        self.report(annotation, (Behaviour::Unsupported, instead));
    }

    /// Returns the value of an annotation; an empty one counts as absent.
    pub fn text(&self, annotation: &str) -> Option<&'a str> {
        let value = self.meta.annotations.get(&format!("{PREFIX}{annotation}"))?;
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    /// Returns the parts between commas.
    pub fn list(&self, annotation: &str) -> Vec<&'a str> {
        let parts = self.text(annotation).unwrap_or_default().split(',');
        parts.map(str::trim).filter(|part| !part.is_empty()).collect()
    }

    /// Returns a value that is true or false.
    pub fn flag(&mut self, annotation: &str) -> Option<bool> {
        match self.text(annotation)? {
            "1" | "t" | "T" | "true" | "True" | "TRUE" => Some(true),
            "0" | "f" | "F" | "false" | "False" | "FALSE" => Some(false),
            other => {
                self.invalid(annotation, format!("{other:?} is neither true nor false"));
                None
            }
        }
    }

    /// Returns whether a value is true.
    pub fn is_on(&mut self, annotation: &str) -> bool {
        self.flag(annotation) == Some(true)
    }

    /// Returns a whole number.
    pub fn number(&mut self, annotation: &str) -> Option<u64> {
        let text = self.text(annotation)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.invalid(annotation, format!("{text:?} is not a whole number"));
        }
        number
    }

    /// Returns the object that an annotation names, which must be in the namespace of the Ingress: an Ingress
    /// may not read what belongs to others.
    pub fn reference(&mut self, annotation: &str, kind: Kind) -> Result<Option<ObjectName>, String> {
        let Some(text) = self.text(annotation) else { return Ok(None) };
        let own = &*self.meta.namespace;
        let name = match text.split_once('/') {
            Some((namespace, _)) if namespace != own => {
                return Err(format!("{text} is in another namespace"));
            }
            Some((_, name)) => name,
            None => text,
        };
        let name = ObjectName::new(own, name);
        self.references.insert(reference(kind, &name));
        Ok(Some(name))
    }
}
