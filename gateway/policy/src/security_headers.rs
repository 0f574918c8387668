//! `security_headers`: adds response fields that enable protections of browsers.
//!
//! The lines are built once per plan. A response gets the missing ones, or all of them with `overwrite`.

use std::sync::Arc;

use tollgate_http::{FieldFinder, FieldLine};

use crate::{Edit, Planned, Policy, Request, Response, Shared, Verdict};

/// Response fields that enable protections of browsers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// The fields with their values.
    pub fields: Vec<(&'static str, String)>,
    /// Whether they replace the fields of an upstream; otherwise an upstream's field takes precedence.
    pub overwrite: bool,
}

impl Planned for SecurityHeaders {
    fn kind(&self) -> &'static str {
        "security_headers"
    }

    fn summary(&self) -> String {
        let names: Vec<_> = self.fields.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    fn live(self: Arc<Self>, _: &str, _: &Arc<Shared>) -> Arc<dyn Policy> {
        let lines =
            self.fields.iter().filter_map(|(name, value)| FieldLine::new(name.as_bytes(), value.as_bytes()));
        let lines: Vec<FieldLine> = lines.collect();
        let names = FieldFinder::new(lines.iter().map(FieldLine::name));
        Arc::new(Live(Arc::new(Lines { names, lines, overwrite: self.overwrite })))
    }
}

#[derive(Debug)]
struct Live(Arc<Lines>);

#[derive(Debug)]
struct Lines {
    /// The names of the lines; at most 64, because [`Response::there`] reports no more.
    names: FieldFinder,
    lines: Vec<FieldLine>,
    overwrite: bool,
}

impl Policy for Live {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        self.passed_over(request);
        Verdict::Continue
    }

    fn passed_over(&self, request: &mut Request<'_>) {
        request.context.edit(self.0.clone());
    }
}

impl Edit for Lines {
    fn edit(&self, response: &mut Response<'_>) {
        let there = if self.overwrite { 0 } else { response.there(&self.names) };
        if self.overwrite {
            response.cut_all(&self.names);
        }
        let missing = self.lines.iter().enumerate().filter(|(at, _)| there >> at & 1 == 0);
        missing.for_each(|(_, line)| response.push(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sent;
    use crate::{BodyKind, Context};

    #[test]
    fn what_an_upstream_says_counts_unless_it_is_overwritten() {
        let head = b"HTTP/1.1 200 OK\r\nx-frame-options: SAMEORIGIN\r\n\r\n";
        for (overwrite, frame) in [(false, "SAMEORIGIN"), (true, "DENY")] {
            let fields =
                vec![("X-Frame-Options", "DENY".to_owned()), ("Referrer-Policy", "no-referrer".to_owned())];
            let mut bytes = head.to_vec();
            let (mut sent, mut context) = (Sent::new(""), Context::default());
            let live = Arc::new(SecurityHeaders { fields, overwrite }).live("k", &Arc::default());
            live.request(&mut sent.request(&mut context));
            context.respond(&mut bytes, BodyKind::Fixed, false);
            let response = Response::new(&mut bytes, BodyKind::Fixed);
            assert_eq!(response.all("X-Frame-Options").collect::<Vec<_>>(), [frame.as_bytes()]);
            assert_eq!(response.get("Referrer-Policy"), Some(&b"no-referrer"[..]));
        }
    }
}
