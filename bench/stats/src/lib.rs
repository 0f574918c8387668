//! The laboratory's mathematics. Nothing here reads a clock, a file or a socket: numbers in, numbers out, and the same seed gives
//! the same answer on every machine.
//!
//! | question | module |
//! |---|---|
//! | What is a typical value, and how far do values scatter? | [`median`] |
//! | ... when a few rounds were disturbed? | [`centre`] |
//! | How sure is that? | [`bootstrap`] |
//! | How do two systems compare that ran in the same rounds? | [`paired`] |
//! | Is that difference real, or what a system shows against itself? | [`tie`] |
//! | Does a ratio keep below a bar, and if that can't be told, how many rounds would it take? | [`bar`] |
//! | Has a system warmed up? | [`steady`], by the change points of [`segments`] |
//! | Does it scale with its workers? | [`fit`] |
//! | Where does latency start to climb? | [`knee`] |
//! | What is the p99 of several threads' requests? | [`histogram`] |
//! | How many cores does a rate need? | [`capacity`] |
//! | Which CPU limit and how many workers carry a rate? | [`advice`] |

pub mod advice;
pub mod bar;
pub mod bootstrap;
pub mod capacity;
pub mod centre;
pub mod fit;
pub mod histogram;
pub mod knee;
pub mod median;
pub mod paired;
pub mod segments;
pub mod steady;
pub mod tie;
