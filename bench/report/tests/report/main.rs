//! Every output on a canned result, the HTML page in a real browser.

mod browser;
mod canned;
mod held;
mod outputs;
