//! The fields of a response that the rules read, found in one pass.

use super::admit::Admission;
use super::directives::directives;
use super::freshness::Dates;
use super::response_control::ResponseControl;

/// The fields of a response that the rules read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts<'a> {
    pub control: ResponseControl,
    pub dates: Dates,
    /// The first `Age`.
    pub age: Option<&'a [u8]>,
    /// The values of `Vary`.
    pub vary: Vec<&'a [u8]>,
    pub has_etag: bool,
    pub sets_cookie: bool,
    /// Whether a field lists tags.
    pub has_tags: bool,
}

impl<'a> Facts<'a> {
    /// Reads them. Of a field that must not be repeated, the first line counts.
    pub fn read(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>, admission: &Admission) -> Self {
        let Admission { targeted_fields, tag_fields, .. } = admission;
        let mut facts = Self::default();
        let mut targeted: Vec<(usize, &[u8])> = Vec::new();
        for (name, value) in fields {
            let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
            facts.has_tags |= tag_fields.iter().any(|wanted| is(wanted));
            match name.len() {
                3 if is("age") => facts.age = facts.age.or(Some(value)),
                4 if is("vary") => facts.vary.push(value),
                4 if is("etag") => facts.has_etag |= tollgate_http::is_entity_tag(value),
                4 if is("date") => {
                    facts.dates.date = facts.dates.date.or_else(|| tollgate_http::parse_date(value));
                }
                7 if is("expires") => {
                    facts.dates.expires =
                        facts.dates.expires.or_else(|| Some(tollgate_http::parse_date(value)));
                }
                10 if is("set-cookie") => facts.sets_cookie = true,
                13 if is("cache-control") => {
                    directives(value).for_each(|directive| facts.control.apply(&directive));
                }
                13 if is("last-modified") => {
                    facts.dates.modified = facts.dates.modified.or_else(|| tollgate_http::parse_date(value));
                }
                _ => {
                    if let Some(at) = targeted_fields.iter().position(|wanted| is(wanted)) {
                        targeted.push((at, value));
                    }
                }
            }
        }
        let of_field = |at| targeted.iter().filter(move |(field, _)| *field == at).map(|(_, value)| *value);
        let first_valid =
            (0..targeted_fields.len()).filter(|at| of_field(*at).next().is_some()).find_map(|at| {
                let lines: Vec<&[u8]> = of_field(at).collect();
                ResponseControl::of_targeted(&lines)
            });
        if let Some(control) = first_valid {
            facts.control = control;
        }
        facts
    }

    /// Whether `no-cache` or `private` names this field.
    pub fn is_withheld(&self, name: &[u8]) -> bool {
        self.control.withheld_fields.iter().any(|withheld| withheld.eq_ignore_ascii_case(name))
    }
}
