//! The laboratory's statistics. This crate reads no clock, file or socket: it computes numbers from numbers,
//! and the same seed gives the same result on every machine.
//!
//! | question | module |
//! |---|---|
//! | What is a typical value, and how far do values scatter? | [`median`] |
//! | ... if a few rounds were disturbed? | [`centre`] |
//! | How certain is that value? | [`bootstrap`] |
//! | How do two systems compare that ran in the same rounds? | [`paired`] |
//! | Is a difference real, or as large as a system's difference from itself? | [`tie`] |
//! | ... among many comparisons? | [`several`] |
//! | Does a ratio stay below a bar, and if that is undecided, how many rounds are needed? | [`bar`] |
//! | Has a system warmed up? | [`steady`], with the change points of [`segments`] |
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
pub mod several;
pub mod steady;
pub mod tie;
