//! What must hold while something breaks, under load and by the real binary. These take long, so they are ignored
//! unless `make faults` asks for them.

mod load;
mod rolling_restart;
