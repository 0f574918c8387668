//! Pages of errors from another Service.

use super::forms::is_object_name;
use super::reader::Reader;
use super::wanted::Wanted;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    let default = reader.text("default-backend");
    if let Some(wrong) = default.filter(|name| !is_object_name(name)) {
        reader
            .invalid("default-backend", format!("{wrong:?} is not the name of a Service of this namespace"));
    }
    wanted.default_backend = default.filter(|name| is_object_name(name)).map(str::to_owned);
    if reader.is_on("disable-proxy-intercept-errors") {
        return;
    }
    for text in reader.list("custom-http-errors") {
        match text.parse::<u16>() {
            Ok(status @ 400..=599) => wanted.error_statuses.push(status),
            _ => reader.invalid("custom-http-errors", format!("{text:?} is not the status of an error")),
        }
    }
    if !wanted.error_statuses.is_empty() && wanted.default_backend.is_none() {
        wanted.error_statuses.clear();
        let instead = "its pages come from `default-backend`, which is missing";
        reader.unsupported("custom-http-errors", instead);
    }
}

#[cfg(test)]
mod tests {
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn statuses_of_errors() {
        let statuses = |annotations: &[(&str, &str)]| read_all(annotations).wanted.error_statuses;
        assert_eq!(statuses(&[("custom-http-errors", "404,503"), ("default-backend", "pages")]), [404, 503]);
        assert_eq!(statuses(&[("custom-http-errors", "404")]), [0; 0]);
        let off = [
            ("custom-http-errors", "404"),
            ("default-backend", "pages"),
            ("disable-proxy-intercept-errors", "true"),
        ];
        assert_eq!(statuses(&off), [0; 0]);
    }
}
