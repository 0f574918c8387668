//! The report as one HTML page that needs nothing else: no script, font, style or picture from elsewhere, complete without
//! JavaScript, in light and dark, on paper and on a phone.

mod chart;
mod charts;
mod embedded;
mod page;
mod prose;
mod provenance;
mod tables;

use crate::figures::Report;
use tollgate_lab_record::Results;

/// The report as a self-contained HTML page. Its figures stand once more as JSON in `<script id="figures">`.
pub fn html(results: &Results) -> String {
    page::page(&Report::new(results)).into_string()
}
