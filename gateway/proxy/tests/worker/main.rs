//! Tests of a worker in this process, between clients and origins that exchange raw bytes. They check what is
//! visible only from inside, mainly that the statistics balance, however an exchange ends. The end-to-end
//! tests, which use the real binary, are in the repository's `tests` folder.

mod bounds;
mod drain;
mod gateway;
mod origin;
mod records;
mod smuggling;
