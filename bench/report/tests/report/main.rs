//! Every output on a canned result, the HTML page in a real browser.

mod canned;
mod outputs;
