//! Tests every output with a canned result, and the HTML page in a real browser.

mod browser;
mod canned;
mod held;
mod outputs;
mod published;
mod sentences;
