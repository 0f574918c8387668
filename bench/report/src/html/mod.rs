//! The report as one self-contained HTML page: no external script, font, style or picture. It is complete
//! without JavaScript, in light and dark, on paper and on a phone.

mod chart;
mod charts;
mod embedded;
mod page;
mod prose;
mod provenance;
mod tables;

use crate::figures::Report;
use tollgate_lab_record::Results;

/// Returns the report as a self-contained HTML page. Its figures are repeated as JSON in `<script
/// id="figures">`.
pub fn html(results: &Results) -> String {
    page::page(&Report::new(results)).into_string()
}
